"""`belvedere demo`: activation patching on two pictures, from loading to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from belvedere.cli.quiet import quiet
from belvedere.cli.refusals import ArgumentError, refusals, resolved

if TYPE_CHECKING:
    from belvedere.report import Answer, Case, Finding, Story

__all__ = ["demo", "keep_to_one_thread"]


def demo(
    checkpoint: Annotated[
        str, typer.Option(help="A checkpoint of the package, or, with pictures of your own, any folder or Hub id.")
    ] = "shapes-qwen3_5",
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("belvedere-demo"),
    seed: Annotated[int, typer.Option(help="Which pair of scenes is drawn.")] = 0,
    image: Annotated[Path | None, typer.Option(help="A clean picture of your own.")] = None,
    corrupt_image: Annotated[Path | None, typer.Option(help="A corrupt picture of the same size.")] = None,
    prompt: Annotated[str | None, typer.Option(help="What is asked of both pictures.")] = None,
    target: Annotated[str | None, typer.Option(help="The answer to the clean picture, one word.")] = None,
    other: Annotated[str | None, typer.Option(help="The answer to the corrupt picture, one word.")] = None,
) -> None:
    """Find where a model holds what it saw: patch every block and position, and write a report.

    Two pictures differ in one object. Each activation of the clean run is copied into the corrupt one, and the report
    shows how much of the clean answer comes back. Needs no network with a checkpoint of the package.
    """
    own = {"--image": image, "--corrupt-image": corrupt_image, "--prompt": prompt, "--target": target}
    with refusals(), quiet():
        _check(checkpoint, own, other)
        if out.exists() and not out.is_dir():
            raise ArgumentError(f"--out: {str(out)!r} is a file; pass a folder")
        keep_to_one_thread(checkpoint)
        where = resolved(checkpoint)
        from belvedere import StandardizedTransformer
        from belvedere.report import shapes_case, tell, write

        model = StandardizedTransformer(where, dispatch=True)
        case = shapes_case(model, checkpoint, seed) if image is None else _case(model, own, other)
        story = tell(model, checkpoint, case)
        console = Console()
        console.print(_table(story))
        for note in story.notes:
            console.print(Text(f"note: {note}"))
        console.print(Text(f"report: {write(story, out)}"))


def keep_to_one_thread(checkpoint: str) -> None:
    """Models as small as the package's own run slower on several threads, which wait for each other."""
    import torch

    from belvedere import shapes

    if checkpoint in shapes.CHECKPOINTS:
        torch.set_num_threads(1)


def _check(checkpoint: str, own: dict[str, Any], other: str | None) -> None:
    """Refuse a half-given case before anything loads."""
    from belvedere import shapes

    missing = [name for name, given in own.items() if given is None]
    if missing and (len(missing) < len(own) or other is not None):
        raise ArgumentError(f"pictures of your own need {', '.join(own)} together; missing: {', '.join(missing)}")
    if missing and checkpoint not in shapes.CHECKPOINTS:
        raise ArgumentError(
            f"{checkpoint!r} is not one of the package's checkpoints ({', '.join(shapes.CHECKPOINTS)}), so there are "
            f"no scenes for it; pass {', '.join(own)}"
        )
    for name in ("--image", "--corrupt-image"):
        if own[name] is not None and not own[name].is_file():
            raise ArgumentError(f"{name}: there is no file {str(own[name])!r}")


def _case(model: Any, own: dict[str, Any], other: str | None) -> Case:
    """A user's own pair of pictures."""
    from belvedere.pictures import open_picture
    from belvedere.report import picture_case

    clean, corrupt = (open_picture(own[name]) for name in ("--image", "--corrupt-image"))
    return picture_case(model, clean, corrupt, own["--prompt"], own["--target"], other)


def _table(story: Story) -> Table:
    """The short answer: what the model says to both pictures, and where the largest effects are."""
    table = Table(title=f"{story.checkpoint}: {story.case.question}", show_header=False, title_justify="left")
    table.add_row("clean answer", _likeliest(story.clean))
    table.add_row("corrupt answer", _likeliest(story.corrupt))
    table.add_row("largest effect of a patch", _best(story.tower, "patch"))
    table.add_row("largest effect of an image token", _best(story.text, "image token"))
    table.add_row("the contract", Text(story.verified.summary))
    return table


def _likeliest(answers: tuple[Answer, ...]) -> Text:
    first = answers[0]
    return Text(f"{first.text} (probability {first.probability:.3f})")


def _best(finding: Finding, what: str) -> Text:
    if not finding.matters:
        return Text(f"none: no single {what} restores more than {finding.best.effect:.2f}")
    left, top, right, bottom = finding.box
    where = {None: "", True: ", over the changed object", False: ", outside of the changed object"}[finding.inside]
    return Text(
        f"{finding.best.effect:.2f} at block {finding.best.layer}, {what} {finding.best.index} "
        f"(position {finding.best.positions[0]}; pixels {left}-{right} across, {top}-{bottom} down){where}"
    )
