"""`belvedere families`: the model types that are known, and a first draft of one that is not."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from belvedere.cli.quiet import quiet
from belvedere.cli.refusals import refusals, resolved

__all__ = ["families"]

families = typer.Typer(help="The model types that are known.", invoke_without_command=True, no_args_is_help=False)


@families.callback(invoke_without_command=True)
def shelves(context: typer.Context) -> None:
    """List the text stacks, towers and wrappers that are known."""
    if context.invoked_subcommand is not None:
        return
    from belvedere import families as shelves

    console = Console()
    for shelf in shelves.PARTS:
        table = Table(title=shelf, title_justify="left", title_style="bold")
        table.add_column("model type", no_wrap=True)
        table.add_column("what it is")
        for name in shelves.known(shelf):
            written = (shelves.lookup(shelf, name).__doc__ or "").strip().partition("\n")[0]
            table.add_row(name, Text(written.replace("`", "")))
        console.print(table)


@families.command()
def draft(
    config: Annotated[str, typer.Argument(help="A folder, a config.json or a Hub id of the checkpoint.")],
) -> None:
    """Print a first entry for each part of a checkpoint that is not known, with its guesses marked, and the zoo row.

    Only the config is read: the model is built without weights.
    """
    with refusals(), quiet():
        from belvedere.draft import draft as drafted

        typer.echo(drafted(resolved(config)), nl=False)
