"""The `belvedere` command; each subcommand is a file of its own, which loads what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from belvedere.cli.demo import demo
from belvedere.cli.explore import explore
from belvedere.cli.families import families
from belvedere.cli.support import support
from belvedere.cli.verify import verify

__all__ = ["app"]

app = typer.Typer(
    name="belvedere",
    help="One set of names and values for the insides of every vision-language model on Hugging Face.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command()(support)
app.command()(verify)
app.add_typer(families, name="families")
app.command()(demo)
app.command()(explore)


def _version(asked: bool) -> None:
    if not asked:
        return
    import belvedere

    typer.echo(f"belvedere {belvedere.__version__}")
    raise typer.Exit


@app.callback()
def belvedere(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Look inside vision-language models."""
