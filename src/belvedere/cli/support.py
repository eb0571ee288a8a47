"""`belvedere support`: what a checkpoint supports, from its config alone."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from belvedere.cli.quiet import quiet
from belvedere.cli.refusals import ArgumentError, refusals, resolved

__all__ = ["Format", "support", "write"]


class Format(StrEnum):
    """How the matrix is written."""

    terminal = "terminal"
    markdown = "markdown"
    json = "json"
    html = "html"


def support(
    checkpoint: Annotated[
        str,
        typer.Argument(help="A folder, a config.json, a Hub id, or a checkpoint of the package: shapes-llava."),
    ],
    format: Annotated[Format, typer.Option(help="How to write it.")] = Format.terminal,
    out: Annotated[Path | None, typer.Option(help="A file to write to instead of the screen.")] = None,
) -> None:
    """Print which values a checkpoint has, on which blocks, and why it lacks the others.

    Only the config is read: no weights are loaded and no processor is needed.
    """
    with refusals(), quiet():
        from belvedere import StandardizedTransformer
        from belvedere.report import FORMATS, as_renderable, support_matrix

        model = StandardizedTransformer.from_config(resolved(checkpoint))
        matrix = support_matrix(model, checkpoint)
        if out is not None:
            write(out, FORMATS[format.value](matrix))
        elif format is Format.terminal:
            Console().print(as_renderable(matrix))
        else:
            typer.echo(FORMATS[format.value](matrix), nl=False)


def write(out: Path, text: str) -> None:
    """Write a file and say so; refuse one that cannot be written."""
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{out} cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {out}")
