"""`belvedere explore`: one page of where a model looks in a picture, what it reads there, and what matters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from belvedere.cli.demo import keep_to_one_thread
from belvedere.cli.quiet import quiet
from belvedere.cli.refusals import ArgumentError, refusals, resolved

__all__ = ["explore"]


def explore(
    checkpoint: Annotated[str, typer.Option(help="A folder, a Hub id, or a checkpoint of the package: shapes-llava.")],
    image: Annotated[list[Path], typer.Option(help="A picture; once for each where there are several.")],
    prompt: Annotated[str, typer.Option(help="What is asked of it.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("belvedere-explore.html"),
    answer: Annotated[
        str | None, typer.Option(help="The word whose probability is followed; by default the model's next token.")
    ] = None,
    corrupt: Annotated[
        list[Path] | None,
        typer.Option(
            help="A picture for the corrupt run, of the same size; by default each picture in its mean colour."
        ),
    ] = None,
    corrupt_prompt: Annotated[str | None, typer.Option(help="What the corrupt run is asked instead.")] = None,
    effect_blocks: Annotated[
        str | None,
        typer.Option(help="Blocks at which image tokens are patched, such as 0,8,16; none leaves the sweep out."),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="The type of the weights, such as bfloat16.")] = None,
    device_map: Annotated[str | None, typer.Option(help="Where the weights go, such as auto or cuda.")] = None,
) -> None:
    """Write one page to explore a picture and a prompt: attention, what each place reads as, and what it changes.

    The page needs nothing beside itself and no network. Choose a token of the prompt to see what it attends to, or a
    place in the picture to see its numbers by block and head.
    """
    with refusals(), quiet():
        _check({"--image": image, "--corrupt": corrupt or []}, out)
        layers = _blocks(effect_blocks)
        where = resolved(checkpoint)
        pictures = {name: _opened(given) for name, given in (("images", image), ("corrupt", corrupt)) if given}
        keep_to_one_thread(checkpoint)
        loading = {name: held for name, held in (("dtype", dtype), ("device_map", device_map)) if held is not None}
        asked = {"prompt": prompt, "answer": answer, "corrupt_prompt": corrupt_prompt, "effect_layers": layers}
        _explored(where, loading, {**asked, **pictures}, out)


def _opened(given: list[Path]) -> list[Any]:
    from belvedere.pictures import open_picture

    return [open_picture(one, number) for number, one in enumerate(given)]


def _explored(where: str, loading: dict[str, Any], asked: dict[str, Any], out: Path) -> None:
    """Gather, write, and say what came out."""
    from belvedere import StandardizedTransformer, report

    model = StandardizedTransformer(where, **loading)
    found = report.explore(model, **asked)
    written = report.explorer(found)
    _write(out, written)
    console, answer = Console(), found.answer
    console.print(Text(f"answer: {answer.text.strip() or repr(answer.text)} (probability {answer.probability:.3f})"))
    for note in found.notes:
        console.print(Text(f"note: {note}"))
    for what, held in (("attention", found.looks), ("words", found.lens), ("effects", found.effects)):
        if isinstance(held, str):
            console.print(Text(f"no {what}: {held}"))
    console.print(Text(f"page: {out} ({len(written.encode()) / 1e6:.1f} MB)"))


def _check(pictures: dict[str, list[Path]], out: Path) -> None:
    """Refuse what cannot work before anything loads."""
    for name, given in pictures.items():
        for one in given:
            if not one.is_file():
                raise ArgumentError(f"{name}: there is no file {str(one)!r}")
    shown, others = pictures["--image"], pictures["--corrupt"]
    if others and len(others) != len(shown):
        raise ArgumentError(f"--corrupt: {len(others)} for {len(shown)} pictures; pass one for each")
    if out.is_dir():
        raise ArgumentError(f"--out: {str(out)!r} is a folder; pass a file")
    if not out.resolve().parent.is_dir():
        raise ArgumentError(f"--out: there is no folder {str(out.parent)!r}")


def _blocks(given: str | None) -> list[int] | None:
    """The blocks of a list such as ``0,8,16``; nothing of ``none``."""
    if given is None:
        return None
    if given == "none":
        return []
    try:
        return [int(one) for one in given.split(",")]
    except ValueError as error:
        raise ArgumentError(f"--effect-blocks: {given!r} is no list of blocks; write 0,8,16, or none") from error


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"--out: {out} cannot be written: {error.strerror}") from error
