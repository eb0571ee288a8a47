"""The support matrix as a terminal, a Markdown file, a program or a browser reads it.

Colour is never the only sign: a value that reads says ``yes`` and its shape, one that does not says ``no`` and the
number of its reason.
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
        for column in group.columns:
            table.add_column(column.label)
        for row in group.rows:
            table.add_row(Text(row.value), *(_colored(matrix, cell) for cell in row.cells))
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
        lines += [f"## {group.title}", "", _line(["value", *labels]), _line(["---"] * (len(labels) + 1))]
        for row in group.rows:
            lines.append(_line([f"`{row.value}`", *(_sign(matrix, cell) for cell in row.cells)]))
        lines.append("")
    if matrix.reasons:
        lines += ["## Reasons", "", *(f"{number}. {reason}" for number, reason in enumerate(matrix.reasons, 1)), ""]
    return "\n".join(lines)


def as_json(matrix: Matrix) -> str:
    """The matrix for programs: per value and column its shape, and the reason or ``null`` where it reads."""
    groups = [
        {
            "title": group.title,
            "columns": [{"label": column.label, "blocks": list(column.blocks)} for column in group.columns],
            "values": [
                {"value": row.value, "cells": [{"shape": cell.shape, "reason": cell.reason} for cell in row.cells]}
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


def _sign(matrix: Matrix, cell: Cell) -> str:
    return f"no ({matrix.number(cell.reason)})" if cell.reason is not None else f"yes {cell.shape}".strip()


def _colored(matrix: Matrix, cell: Cell) -> Text:
    return Text(_sign(matrix, cell), style="green" if cell.reason is None else "yellow")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
