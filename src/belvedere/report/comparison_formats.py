"""Where checkpoints differ, as a terminal, a Markdown file, a program or a browser reads it."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from belvedere.report.comparison import Comparison, Difference
from belvedere.report.formats import heading, listed_reasons, reasons_table
from belvedere.report.standing import Standing
from belvedere.report.writing import Form, line

__all__ = ["COMPARISON", "sign"]

STYLES = {"served": "green", "recomputed": "cyan", "lacking": "yellow"}


def sign(comparison: Comparison, row: Difference, one: Standing) -> str:
    """How a value stands on one checkpoint, in few words, with the numbers of its reasons."""
    numbers = ", ".join(str(comparison.reasons.index(lack.reason) + 1) for lack in one.lacks)
    if one.state == "lacking":
        return f"no ({numbers})"
    said = [
        f"{'recomputed' if one.state == 'recomputed' else 'yes'} {one.shape}".strip(),
        *([f"read from {one.part}"] if row.in_parts and one.part else []),
        *([f"{one.where} only ({numbers})"] if one.blocks else []),
    ]
    return ", ".join(said)


def said(comparison: Comparison) -> str:
    """How much is alike."""
    alike = f"{comparison.alike} values are alike on all, or lacking on all, and are left out."
    return alike if comparison.differences else f"They support the same values: {alike}"


def _title(comparison: Comparison) -> str:
    return f"Where they differ: {', '.join(heading(matrix) for matrix in comparison.matrices)}"


def _renderable(comparison: Comparison) -> RenderableType:
    if not comparison.differences:
        return Text(said(comparison))
    table = Table()
    table.add_column("value", no_wrap=True)
    for matrix in comparison.matrices:
        table.add_column(Text(matrix.checkpoint))
    for row in comparison.differences:
        cells = (Text(sign(comparison, row, one), style=STYLES[one.state]) for one in row.standings)
        table.add_row(Text(row.value), *cells)
    return Group(table, Text(said(comparison)), *reasons_table(comparison.reasons))


def _markdown(comparison: Comparison) -> list[str]:
    names = [f"`{matrix.checkpoint}`" for matrix in comparison.matrices]
    rows = [
        line([f"`{row.value}`", *(sign(comparison, row, one) for one in row.standings)])
        for row in comparison.differences
    ]
    table = [line(["value", *names]), line(["---"] * (len(names) + 1)), *rows, ""] if rows else []
    return [*table, said(comparison), "", *listed_reasons(comparison.reasons)]


def _data(comparison: Comparison) -> dict[str, Any]:
    """``values`` are those that differ, each with a standing for each of ``checkpoints``, in their order."""
    checkpoints = [{"checkpoint": one.checkpoint, "family": dict(one.family)} for one in comparison.matrices]
    values = [
        {"value": row.value, "standings": [one.as_data() for one in row.standings]} for row in comparison.differences
    ]
    return {"checkpoints": checkpoints, "values": values, "alike": comparison.alike}


COMPARISON = Form(
    title=_title,
    renderable=_renderable,
    markdown=_markdown,
    data=_data,
    template="comparison.html.j2",
    words=lambda comparison: {"sign": sign, "said": said},
)
