"""`belvedere verify`: whether the contract holds on a checkpoint, run on its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from belvedere.cli.quiet import quiet
from belvedere.cli.refusals import ArgumentError, refusals, resolved
from belvedere.cli.support import Format, write

__all__ = ["verify"]


def verify(
    checkpoint: Annotated[
        str, typer.Argument(help="A folder, a Hub id, or a checkpoint of the package: shapes-llava.")
    ],
    image: Annotated[
        list[Path] | None, typer.Option(help="A picture of your own in place of the drawn one; may be given again.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="What is asked, with the model's placeholder for each picture.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="The number type to load it in, such as bfloat16.")] = None,
    device_map: Annotated[str | None, typer.Option(help="Where its parts go: auto, cuda, cpu.")] = None,
    attention: Annotated[str | None, typer.Option(help="The attention implementation: sdpa, eager, ...")] = None,
    format: Annotated[Format, typer.Option(help="How to write the report.")] = Format.terminal,
    out: Annotated[Path | None, typer.Option(help="A file to write to instead of the screen.")] = None,
) -> None:
    """Load a checkpoint and run the contract on it: each clause, whether it holds, and what differs where.

    Values are compared with plain forwards that PyTorch hooks watch. Exit status: 0 where no clause fails, 1 where one
    does, 2 where the checkpoint or an argument cannot be used.
    """
    with refusals(), quiet():
        given = _input(image or [], prompt)
        options = {"dtype": dtype, "device_map": device_map, "attn_implementation": attention}
        model = _loaded(checkpoint, {name: held for name, held in options.items() if held})
        from belvedere.report import VERIFIED
        from belvedere.verifying import verify as run

        report = run(model, checkpoint=checkpoint, **given)

        if out is not None:
            write(out, VERIFIED[format.value](report))
            typer.echo(report.summary)
        elif format is Format.terminal:
            console = Console()
            console.print(report.table())
            for name, held in report.settings.items():
                console.print(Text(f"{name}: {held}"))
        else:
            typer.echo(VERIFIED[format.value](report), nl=False)
    if not report.passed:
        raise typer.Exit(1)


def _input(images: list[Path], prompt: str | None) -> dict[str, Any]:
    """A user's own input; none for the drawn one.

    Raises:
        ArgumentError: There is a picture without a prompt, or a file is not there.
    """
    if images and prompt is None:
        raise ArgumentError("--image needs --prompt, with the model's placeholder where the picture goes")
    missing = next((one for one in images if not one.is_file()), None)
    if missing is not None:
        raise ArgumentError(f"--image: there is no file {str(missing)!r}")
    given: dict[str, Any] = {"text": prompt} if prompt is not None else {}
    return {**given, "images": [str(one) for one in images]} if images else given


def _loaded(checkpoint: str, options: dict[str, Any]) -> Any:
    """The checkpoint with its weights.

    Raises:
        ArgumentError: It cannot be loaded with these options.
    """
    where = resolved(checkpoint)
    if where.endswith(".json"):
        raise ArgumentError(f"{checkpoint!r} is a config, and verifying needs weights; pass the folder or a Hub id")
    from belvedere import StandardizedTransformer
    from belvedere.errors import InputError, UnsupportedFamily

    try:
        return StandardizedTransformer(where, dispatch=True, **options)
    except (InputError, UnsupportedFamily, FileNotFoundError):
        raise
    except (OSError, ValueError, ImportError, RuntimeError, AttributeError) as error:
        raise ArgumentError(f"{checkpoint} cannot be loaded: {str(error).strip()}") from error
