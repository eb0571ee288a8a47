"""`belvedere families`: the model types that are known."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["families"]


def families() -> None:
    """List the text stacks, towers and wrappers that are known."""
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
