"""What a user can put right is said in a sentence, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

__all__ = ["ArgumentError", "refusals", "resolved"]


class ArgumentError(ValueError):
    """An argument that a command cannot work with; the message says what to pass."""


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what a user can put right into a message on standard error and exit code 2."""
    from belvedere.errors import InputError, Unavailable, UnsupportedFamily

    try:
        yield
    except (ArgumentError, InputError, Unavailable, UnsupportedFamily, FileNotFoundError) as error:
        Console(stderr=True, soft_wrap=True).print(Text("error: ", style="bold red") + Text(str(error)))
        raise typer.Exit(2) from error


def resolved(checkpoint: str) -> str:
    """Where a checkpoint is: one of the package's by name, else a folder, a config file or a Hub id as it stands.

    Raises:
        ArgumentError: It is a path, or a bare name, and nothing is there.
    """
    from belvedere import shapes
    from belvedere.spelling import did_you_mean

    if checkpoint in shapes.CHECKPOINTS:
        found = shapes.checkpoint(checkpoint)
        if not (found / "config.json").is_file():
            raise ArgumentError(f"{checkpoint} is not in this installation; there is nothing at {found}")
        return str(found)
    names = ", ".join(shapes.CHECKPOINTS)
    if Path(checkpoint).exists():
        return checkpoint
    if checkpoint.startswith((".", "/", "~")) or checkpoint.endswith(".json"):
        raise ArgumentError(f"there is no file or folder {checkpoint!r}; pass one, a Hub id, or one of {names}")
    near = did_you_mean(checkpoint, shapes.CHECKPOINTS, closeness=0.75)
    if near and "/" not in checkpoint:
        raise ArgumentError(f"there is no checkpoint {checkpoint!r}{near}")
    return checkpoint
