"""The support matrix of a checkpoint as a terminal, a Markdown file, a program or a browser reads it.

Colour is never the only sign: a value that reads says ``yes`` and its shape, or ``recomputed`` where the forward need
not make it; one that does not says ``no`` and the number of its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from belvedere.report.matrix import Cell, Matrix
from belvedere.report.writing import WRITERS, Form, line, written

__all__ = ["FORMATS", "MATRIX", "heading", "listed_reasons", "reasons_table"]


def heading(matrix: Matrix) -> str:
    """A checkpoint, with the model types of its parts."""
    parts = ", ".join(f"{part} {name}" for part, name in matrix.family.items())
    return f"{matrix.checkpoint} ({parts})"


def reasons_table(reasons: tuple[str, ...]) -> list[RenderableType]:
    """Numbered reasons for a rich console; nothing where there are none."""
    table = Table.grid(padding=(0, 1))
    for number, reason in enumerate(reasons, start=1):
        table.add_row(Text(f"{number}", style="yellow"), Text(reason))
    return [Text("Reasons", style="bold"), table] if reasons else []


def listed_reasons(reasons: tuple[str, ...]) -> list[str]:
    """Numbered reasons in Markdown; nothing where there are none."""
    return (
        ["## Reasons", "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)), ""] if reasons else []
    )


def _renderable(matrix: Matrix) -> RenderableType:
    parts: list[RenderableType] = [Text(f"No pictures: {matrix.note}")] if matrix.note else []
    for group in matrix.groups:
        table = Table(title=group.title, title_justify="left", title_style="bold")
        table.add_column("value", no_wrap=True)
        table.add_column("read from")
        for column in group.columns:
            table.add_column(column.label)
        for row in group.rows:
            table.add_row(Text(row.value), Text(row.part), *(_colored(matrix, cell) for cell in row.cells))
        parts.append(table)
    return Group(*parts, *reasons_table(matrix.reasons))


def _markdown(matrix: Matrix) -> list[str]:
    lines = [f"No pictures: {matrix.note}", ""] if matrix.note else []
    for group in matrix.groups:
        labels = [column.label for column in group.columns]
        lines += [f"## {group.title}", "", line(["value", "read from", *labels]), line(["---"] * (len(labels) + 2))]
        for row in group.rows:
            part = f"`{row.part}`" if row.part else ""
            lines.append(line([f"`{row.value}`", part, *(_sign(matrix, cell) for cell in row.cells)]))
        lines.append("")
    return lines + listed_reasons(matrix.reasons)


def _data(matrix: Matrix) -> dict[str, Any]:
    """Per value and column its shape, and the reason or ``null`` where it reads.

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
    return {"checkpoint": matrix.checkpoint, "family": dict(matrix.family), "note": matrix.note, "groups": groups}


MATRIX = Form(
    title=lambda matrix: f"Support of {heading(matrix)}",
    renderable=_renderable,
    markdown=_markdown,
    data=_data,
    template="support.html.j2",
)
#: A matrix as text, by format.
FORMATS: dict[str, Callable[[Matrix], str]] = {name: partial(written, format=name) for name in WRITERS}


def _cell(cell: Cell) -> dict[str, str | None]:
    return {"shape": cell.shape, "reason": cell.reason, "recomputed": cell.recomputed}


def _sign(matrix: Matrix, cell: Cell) -> str:
    if cell.reason is not None:
        return f"no ({matrix.number(cell.reason)})"
    return f"{'recomputed' if cell.recomputed else 'yes'} {cell.shape}".strip()


def _colored(matrix: Matrix, cell: Cell) -> Text:
    style = "yellow" if cell.reason is not None else "cyan" if cell.recomputed else "green"
    return Text(_sign(matrix, cell), style=style)
