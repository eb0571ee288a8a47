"""A map of values, a row per block and a column per position."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation
from torch import Tensor

from belvedere.plot.style import FAINT, LETTER, Plot, Scale, figure, styled, wrapped

__all__ = ["heat"]

#: Inches of a row and a column where there is room, and the most that all of them take.
ROW, COLUMN, TALL, WIDE = 0.28, 0.12, 11.0, 11.0
#: Inches of a column that has a label of its own beside columns of a picture, and of a line of writing.
NAMED, LINE = 0.2, 0.17
#: Letters of a column's label.
LETTERS = 24
#: Letters that a span has room for, if what it is stands upright.
FLAT = 9
#: Inches below the map where numbers of a picture's columns end and its bracket is.
BRACKET = 0.32


def heat(
    values: Tensor,
    *,
    rows: Sequence[Any],
    columns: Sequence[Any],
    title: str,
    unit: str,
    down: str = "block",
    across: str = "position",
    spans: Sequence[tuple[int, int, str]] = (),
    signed: bool = True,
    least: float | None = None,
) -> Plot:
    """Draw a map.

    Columns that no span holds are wide enough for their labels, as long as the figure has room.

    Args:
        values: ``[rows, columns]``.
        rows: What each row is, such as the block's number.
        columns: What each column is, such as the position's number, or that and its token.
        title: What the values are.
        unit: What their colours mean, written along the colour bar.
        down: What the rows are.
        across: What the columns are.
        spans: Neighbouring columns that belong together: the first, the one behind the last, and what they are.
        signed: Whether values have a sign; else their colours begin at zero.
        least: What a scale never closes in on, for it would show noise; by default 0.01 of signed values.

    Returns:
        The figure.
    """
    labels = [_short(str(column)) for column in columns]
    widths = _widths(labels, spans)
    names = [_short(str(row)) for row in rows]
    tall = min(TALL, max(1.6, ROW * len(rows)))
    wide = max(2.6, float(widths.sum()))
    below = 0.9 + LETTER * max([*(len(label) for label in labels), 0]) * any(len(label) > 3 for label in labels)
    beside = 1.9 + LETTER * max([*(len(name) for name in names), 0])
    head, more = wrapped(wide + beside, title)
    scale = Scale.of(values, signed=signed, least=least)
    with styled():
        made = figure(wide + beside, tall + below + more + (BRACKET + 0.3) * bool(spans))
        made.suptitle(head)
        axes = made.add_subplot()
        edges = np.concatenate([[0.0], widths.cumsum()]) * len(labels) / widths.sum()
        axes.pcolormesh(edges, np.arange(len(rows) + 1) - 0.5, values.detach().float().cpu().numpy(), **scale.look)
        axes.invert_yaxis()
        axes.set_ylabel(down)
        axes.set_xlabel(across)
        step = -(-len(rows) * LINE // tall)
        axes.set_yticks(range(0, len(rows), int(step)), names[:: int(step)])
        _below(axes, labels, edges, spans, wide / len(labels))
        scale.bar(made, unit.replace(": ", ":\n"), ax=axes, inches=tall)
    return made


def _short(label: str) -> str:
    return label if len(label) <= LETTERS else f"{label[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def _widths(labels: Sequence[str], spans: Sequence[tuple[int, int, str]]) -> Any:
    """The inches of each column."""
    widths = np.full(len(labels), NAMED if any(len(label) > 3 for label in labels) else COLUMN)
    for start, stop, _ in spans:
        widths[start:stop] = min(COLUMN, WIDE * 0.6 / (stop - start))
    if widths.sum() <= WIDE:
        return widths
    inside = np.zeros(len(labels), dtype=bool)
    for start, stop, _ in spans:
        inside[start:stop] = True
    # The pictures give way first, down to half of the figure.
    taken = widths[~inside].sum()
    left = max(WIDE - taken, WIDE / 2) if inside.any() else 0.0
    if inside.any():
        widths[inside] *= min(1.0, left / widths[inside].sum())
    if taken > WIDE - left:
        widths[~inside] *= (WIDE - left) / taken
    return widths


def _below(axes: Axes, labels: Sequence[str], edges: Any, spans: Sequence[tuple[int, int, str]], inches: float) -> None:
    """The columns' labels, as many as there is room for, and a bracket under each span."""
    middles = [(left + right) / 2 for left, right in pairwise(edges)]
    inside = {column for start, stop, _ in spans for column in range(start, stop)}
    turned = any(len(label) > 3 for label in labels)
    upright = [column in inside or not turned for column in range(len(labels))]
    rooms = [LETTER * (len(label) + 1) if flat else LINE for label, flat in zip(labels, upright, strict=True)]
    # First those that stand alone, then numbers of a span's columns wherever they do not touch another label.
    shown: list[int] = []
    for column in sorted(range(len(labels)), key=lambda number: (number in inside, number)):
        gaps = (abs(middles[column] - middles[other]) * inches - (rooms[column] + rooms[other]) / 2 for other in shown)
        if all(gap >= -1e-6 for gap in gaps):
            shown.append(column)
    shown.sort()
    axes.set_xticks([middles[column] for column in shown], [labels[column] for column in shown])
    for column, label in zip(shown, axes.get_xticklabels(), strict=True):
        label.set_parse_math(False)
        label.set_rotation(0 if upright[column] else 90)
        label.set_fontsize(8 if column in inside else 10)
    _brackets(axes, edges, spans, inches)


def _brackets(axes: Axes, edges: Any, spans: Sequence[tuple[int, int, str]], inches: float) -> None:
    """A line under the columns of each span, with what they are below it."""
    held = [(float(edges[start]), float(edges[stop]), name) for start, stop, name in spans]
    letters = [int((right - left) * inches / LETTER) - 1 for left, right, _ in held]
    axes.set_xticks(
        [(left + right) / 2 for left, right, _ in held],
        [fill(name, room) if room >= FLAT else name for (_, _, name), room in zip(held, letters, strict=True)],
        minor=True,
    )
    for label, room in zip(axes.get_xticklabels(minor=True), letters, strict=True):
        label.set_rotation(0 if room >= FLAT else 90)
    axes.tick_params(axis="x", which="minor", length=0, pad=72 * BRACKET + 3)
    shifted = axes.get_xaxis_transform() + ScaledTranslation(0, -BRACKET, axes.figure.dpi_scale_trans)
    for left, right, _ in held:
        inset = min(0.02 / inches, (right - left) / 8)
        look: Any = {"color": FAINT, "linewidth": 1.2, "transform": shifted, "clip_on": False}
        axes.add_line(Line2D([left + inset, right - inset], [0, 0], **look))
