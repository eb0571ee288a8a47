"""Values as curves, one for each name, over blocks or windows of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from torch import Tensor

from belvedere.plot.style import FAINT, LINES, Plot, figure, styled, wrapped

__all__ = ["curves"]

MOST_LABELS = 24
#: Letters of a line that the axis has room for, and of a name in the legend; inches of a letter and of a line.
LETTERS, NAME, LETTER, LINE = 34, 30, 0.085, 0.21


def curves(
    values: Tensor, *, names: Sequence[str], columns: Sequence[Any], title: str, unit: str, across: str = "blocks"
) -> Plot:
    """Draw a curve per name.

    Args:
        values: ``[names, columns]``.
        names: What each curve is.
        columns: What each point is, such as the blocks.
        title: What the values are.
        unit: What is measured.
        across: What the points are.

    Returns:
        The figure.

    Raises:
        ValueError: There is not one name per curve and one label per point.
    """
    if values.shape != (len(names), len(columns)):
        raise ValueError(f"values are {list(values.shape)}, with {len(names)} names and {len(columns)} columns")
    with styled():
        labels = [fill(name, NAME) for name in names]
        beside = 0.7 + LETTER * max(len(line) for label in labels for line in label.splitlines() or [""])
        wide = max(4.5, min(11.0, 2.5 + 0.35 * len(columns))) + beside
        head, more = wrapped(wide, title)
        lines = sum(label.count("\n") + 1 for label in labels)
        made = figure(wide, max(3.2, LINE * lines + 0.8) + more)
        made.suptitle(head)
        axes = made.add_subplot()
        axes.axhline(0, color=FAINT, linewidth=0.8)
        for number, (row, name) in enumerate(zip(values, labels, strict=True)):
            color, marker = LINES[number % len(LINES)]
            axes.plot(row.cpu().numpy(), color=color, marker=marker, label=name)
        step = -(-len(columns) // MOST_LABELS)
        axes.set_xticks(range(0, len(columns), step), [str(column) for column in columns[::step]])
        axes.set_xlabel(across)
        axes.set_ylabel(fill(unit, LETTERS, break_on_hyphens=False))
        # Beside the curves, for they may be anywhere.
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0)
    return made
