"""`belvedere support`: what a checkpoint supports, where several differ, and what the whole field supports."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CHECKPOINT",
            help="A folder, a config.json, a Hub id, or a checkpoint of the package: shapes-llava. "
            "Of two or more, only where they differ.",
            show_default=False,
        ),
    ] = None,
    field: Annotated[
        bool, typer.Option("--all", help="Every vision-language model type that transformers knows, in one table.")
    ] = False,
    format: Annotated[Format, typer.Option(help="How to write it.")] = Format.terminal,
    out: Annotated[Path | None, typer.Option(help="A file to write to instead of the screen.")] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--transformers-report",
            help="Add what is installed: the versions of belvedere, transformers, torch, nnsight and python; the types "
            "that this transformers maps to image-text-to-text and no entry describes, with those that nobody has "
            "looked at; and the entries whose type this transformers has no config for. Works by itself too.",
        ),
    ] = False,
) -> None:
    """Print which values a checkpoint has, on which blocks, and why it lacks the others.

    Only configs are read: no weights are loaded and no processor is needed. --all needs no network either.
    """
    with refusals(), quiet():
        _check(checkpoints or [], field, report)
        _refuse_folder(out)
        from belvedere.report import rendered, transformers_report, written

        record = _record(checkpoints or [], field)
        about = transformers_report() if report and record is not None else None
        record = record if record is not None else transformers_report()
        if out is not None:
            write(out, written(record, format.value, about))
        elif format is Format.terminal:
            Console().print(rendered(record, about))
        else:
            typer.echo(written(record, format.value, about), nl=False)


def _check(checkpoints: list[str], field: bool, report: bool) -> None:
    if field and checkpoints:
        raise ArgumentError(f"--all is every model type, and takes no checkpoint; leave out {', '.join(checkpoints)}")
    if not (field or checkpoints or report):
        raise ArgumentError("pass a checkpoint; or two, to see where they differ; or --all, for every model type")


def _record(checkpoints: list[str], field: bool) -> Any:
    """What is asked for; ``None`` for what is installed alone."""
    from belvedere import StandardizedTransformer
    from belvedere.report import compare, support_matrix, survey

    if field:
        return survey(_watched)
    matrices = [support_matrix(StandardizedTransformer.from_config(resolved(name)), name) for name in checkpoints]
    return compare(*matrices) if len(matrices) > 1 else next(iter(matrices), None)


def _watched(names: list[str]) -> Iterable[str]:
    """The names, with a bar on standard error where that is a terminal."""
    from rich.progress import track

    return track(names, "model types", console=Console(stderr=True), transient=True)


def _refuse_folder(out: Path | None) -> None:
    """Refuse what cannot be written to before anything is built."""
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise ArgumentError(f"{out} cannot be written: pass a file in a folder that is there")


def write(out: Path, text: str) -> None:
    """Write a file and say so; refuse one that cannot be written."""
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{out} cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {out}")
