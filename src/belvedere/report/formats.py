"""The support matrix as a terminal, a Markdown file, a program or a browser reads it.

Colour is never the only sign: a value that reads says ``yes`` and its shape, or ``recomputed`` where the forward need
not make it; one that does not says ``no`` and the number of its reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from belvedere.report.matrix import Cell, Matrix
from belvedere.report.page import page

__all__ = ["FORMATS", "as_html", "as_json", "as_markdown", "as_renderable", "as_terminal"]


def as_renderable(matrix: Matrix) -> RenderableType:
    """The tables, and the reasons under them, for a rich console."""
    parts: list[RenderableType] = [Text(_heading(matrix), style="bold")]
    if matrix.note:
        parts.append(Text(f"No pictures: {matrix.note}"))
    for group in matrix.groups:
        table = Table(title=group.title, title_justify="left", title_style="bold")
        table.add_column("value", no_wrap=True)
        table.add_column("read from")
        for column in group.columns:
            table.add_column(column.label)
        for row in group.rows:
            table.add_row(Text(row.value), Text(row.part), *(_colored(matrix, cell) for cell in row.cells))
        parts.append(table)
    reasons = Table.grid(padding=(0, 1))
    for number, reason in enumerate(matrix.reasons, start=1):
        reasons.add_row(Text(f"{number}", style="yellow"), Text(reason))
    return Group(*parts, Text("Reasons", style="bold"), reasons) if matrix.reasons else Group(*parts)


def as_terminal(matrix: Matrix) -> str:
    """The tables as plain text, 120 columns wide."""
    console = Console(file=StringIO(), width=120, color_system=None)
    console.print(as_renderable(matrix))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def as_markdown(matrix: Matrix) -> str:
    """The tables in Markdown, with numbered reasons."""
    lines = [f"# {_heading(matrix)}", ""]
    if matrix.note:
        lines += [f"No pictures: {matrix.note}", ""]
    for group in matrix.groups:
        labels = [column.label for column in group.columns]
        lines += [f"## {group.title}", "", _line(["value", "read from", *labels]), _line(["---"] * (len(labels) + 2))]
        for row in group.rows:
            part = f"`{row.part}`" if row.part else ""
            lines.append(_line([f"`{row.value}`", part, *(_sign(matrix, cell) for cell in row.cells)]))
        lines.append("")
    if matrix.reasons:
        lines += ["## Reasons", "", *(f"{number}. {reason}" for number, reason in enumerate(matrix.reasons, 1)), ""]
    return "\n".join(lines)


def as_json(matrix: Matrix) -> str:
    """The matrix for programs: per value and column its shape, and the reason or ``null`` where it reads.

    ``part`` is the part of a block that a value is read from, ``recomputed`` what it is made of where the forward need
    not make it; both are empty where there is nothing to say.
    """
    groups = [
        {
            "title": group.title,
            "columns": [{"label": column.label, "blocks": list(column.blocks)} for column in group.columns],
            "values": [
                {"value": row.value, "part": row.part, "cells": [_cell(cell) for cell in row.cells]}
                for row in group.rows
            ],
        }
        for group in matrix.groups
    ]
    held = {"checkpoint": matrix.checkpoint, "family": dict(matrix.family), "note": matrix.note, "groups": groups}
    return json.dumps(held, indent=2, ensure_ascii=False) + "\n"


def as_html(matrix: Matrix) -> str:
    """One page that needs nothing beside itself."""
    return page("support.html.j2", title=_heading(matrix), matrix=matrix)


FORMATS: dict[str, Callable[[Matrix], str]] = {
    "terminal": as_terminal,
    "markdown": as_markdown,
    "json": as_json,
    "html": as_html,
}


def _heading(matrix: Matrix) -> str:
    parts = ", ".join(f"{part} {name}" for part, name in matrix.family.items())
    return f"Support of {matrix.checkpoint} ({parts})"


def _cell(cell: Cell) -> dict[str, str | None]:
    return {"shape": cell.shape, "reason": cell.reason, "recomputed": cell.recomputed}


def _sign(matrix: Matrix, cell: Cell) -> str:
    if cell.reason is not None:
        return f"no ({matrix.number(cell.reason)})"
    return f"{'recomputed' if cell.recomputed else 'yes'} {cell.shape}".strip()


def _colored(matrix: Matrix, cell: Cell) -> Text:
    style = "yellow" if cell.reason is not None else "cyan" if cell.recomputed else "green"
    return Text(_sign(matrix, cell), style=style)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
