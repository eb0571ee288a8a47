"""A map of values, a row per block and a column per position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from belvedere.plot.style import DIVERGING, Plot, figure, fitted, halved, styled

__all__ = ["heat"]

MOST_LABELS = 24


def heat(
    values: Tensor,
    *,
    rows: Sequence[Any],
    columns: Sequence[Any],
    title: str,
    unit: str,
    down: str = "block",
    across: str = "position",
) -> Plot:
    """Draw a map.

    Args:
        values: ``[rows, columns]``.
        rows: What each row is, such as the block's number.
        columns: What each column is, such as the position's number.
        title: What the values are.
        unit: What their colours mean, written along the colour bar.
        down: What the rows are.
        across: What the columns are.

    Returns:
        The figure.
    """
    with styled():
        made = figure(min(12.0, 3.5 + 0.12 * len(columns)), 1.9 + 0.28 * len(rows))
        axes = made.add_subplot()
        shown = axes.imshow(values.cpu().numpy(), cmap=DIVERGING, norm=fitted(values), aspect="auto")
        axes.set_title(title)
        axes.set_ylabel(down)
        axes.set_xlabel(across)
        axes.set_yticks(*_ticks(rows))
        axes.set_xticks(*_ticks(columns))
        halved(made.colorbar(shown, ax=axes, label=unit.replace(": ", ":\n")).ax, values)
    return made


def _ticks(labels: Sequence[Any]) -> tuple[list[int], list[str]]:
    """Where ticks stand and what they say: every so many where there are too many to read."""
    step = -(-len(labels) // MOST_LABELS)
    return list(range(0, len(labels), step)), [str(label) for label in labels[::step]]
