"""Values laid over the picture that they are about, each in its own box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle
from torch import Tensor

from belvedere.plot.ground import ground
from belvedere.plot.style import (
    DIVERGING,
    GROUND,
    INK,
    OUTLINE,
    Plot,
    figure,
    fitted,
    halved,
    strength,
    styled,
    wrapped,
)

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["picture", "strips", "words"]

Box = tuple[float, float, float, float]
COLUMNS = 4
PANEL = 2.6
#: How much of the picture a cell covers, from one that does nothing to the strongest.
COVER = (0.1, 0.85)
#: The strength from which a cell is too dark for dark writing.
DARK = 0.7
#: Inches for the longest word that is written into a cell, the most that a panel takes, and letters of a word.
CELL, WIDEST, LETTERS = 0.55, 11.0, 8
#: A letter's width for its height, and the points of the largest and the smallest writing.
LETTER, SIZES = 0.62, (9.0, 3.0)


def strips(
    values: Tensor,
    boxes: Tensor,
    image: Image,
    *,
    titles: Sequence[str],
    heading: str,
    unit: str,
    outline: Box | None = None,
) -> Plot:
    """Draw one panel per row of values over the same picture, each with a scale of its own.

    Args:
        values: ``[panels, n]``.
        boxes: ``[n, 4]`` in the picture's pixels: ``(left, top, right, bottom)``.
        image: The picture, in its own size.
        titles: What each panel is.
        heading: What the values are.
        unit: What the colours mean.
        outline: A box to draw a line around.

    Returns:
        The figure.

    Raises:
        ValueError: There is not one box per value, or one title per panel.
    """
    if values.shape != (len(titles), len(boxes)):
        raise ValueError(
            f"values are {list(values.shape)}, with {len(titles)} titles and {len(boxes)} boxes; "
            "they must be [titles, boxes]"
        )
    down = -(-len(titles) // COLUMNS)
    across = -(-len(titles) // down)
    tall = PANEL * image.height / image.width
    wide = across * (PANEL + 0.75)
    head, more = wrapped(wide, heading, unit if len(titles) == 1 else f"{unit}; each panel has its own scale")
    with styled():
        made = figure(wide, down * (tall + 0.45) + 0.8 + more)
        made.suptitle(head)
        for number, (row, title) in enumerate(zip(values, titles, strict=True)):
            axes = made.add_subplot(down, across, number + 1)
            _panel(axes, row, boxes, image, title, outline, scale=row)
            beside = axes.inset_axes((1.03, 0, 0.05, 1))
            bar = made.colorbar(ScalarMappable(fitted(row), DIVERGING), cax=beside)
            halved(bar.ax, row).tick_params(labelsize=8)
    return made


def words(
    texts: Sequence[Sequence[str]],
    values: Tensor,
    boxes: Tensor,
    image: Image,
    *,
    titles: Sequence[str],
    heading: str,
    unit: str,
    outline: Box | None = None,
) -> Plot:
    """Draw one panel per row of words over the same picture, each word in its own box.

    Args:
        texts: The words of each panel, one for each box.
        values: ``[panels, n]``, what colours the boxes; one scale for all panels.
        boxes: ``[n, 4]`` in the picture's pixels: ``(left, top, right, bottom)``.
        image: The picture, in its own size.
        titles: What each panel is.
        heading: What the words are.
        unit: What the colours mean.
        outline: A box to draw a line around.

    Returns:
        The figure.

    Raises:
        ValueError: There is not one word and one value per box, or one title per panel.
    """
    if values.shape != (len(titles), len(boxes)) or [len(row) for row in texts] != [len(boxes)] * len(titles):
        raise ValueError(
            f"values are {list(values.shape)}, with {len(titles)} titles and {len(boxes)} boxes; "
            "there must be a word and a value for each box, and a title for each row of them"
        )
    narrowest = float((boxes[:, 2] - boxes[:, 0]).min())
    wide = min(WIDEST, max(PANEL, CELL * image.width / narrowest))
    tall, across = wide * image.height / image.width, max(1, min(COLUMNS, int(2 * WIDEST // wide), len(titles)))
    down = -(-len(titles) // across)
    points = 72 * wide * narrowest / image.width / (LETTER * LETTERS)
    head, more = wrapped(across * (wide + 0.15), heading, unit)
    with styled():
        made = figure(across * (wide + 0.15), down * (tall + 0.35) + 0.8 + more)
        made.suptitle(head)
        for number, (written, row, title) in enumerate(zip(texts, values, titles, strict=True)):
            axes = made.add_subplot(down, across, number + 1)
            _panel(axes, row, boxes, image, title, outline, scale=values)
            _write(axes, written, boxes, points, strength(row, values))
    return made


def _panel(
    axes: Axes, values: Tensor, boxes: Tensor, image: Image, title: str, outline: Box | None, scale: Tensor
) -> None:
    """The picture with its boxes coloured, and a title that says from what to what their values are."""
    ground(axes, image, pale=True)
    _cells(axes, values, boxes, scale)
    if outline is not None:
        _line(axes, outline)
    axes.set_title(f"{title}: {_number(values.min())} to {_number(values.max())}")


def _write(axes: Axes, texts: Sequence[str], boxes: Tensor, points: float, strengths: Tensor) -> None:
    """Each word in the middle of its box, light where the box is dark."""
    largest, smallest = SIZES
    look: Any = {"ha": "center", "va": "center", "parse_math": False, "clip_on": True}
    for word, (left, top, right, bottom), strong in zip(texts, boxes.tolist(), strengths.tolist(), strict=True):
        size, color = max(smallest, min(largest, points)), GROUND if strong > DARK else INK
        axes.text((left + right) / 2, (top + bottom) / 2, _short(word), fontsize=size, color=color, **look)


def _short(word: str) -> str:
    """A word that fits its box, with what would not show written out."""
    shown = word.strip() or repr(word)[1:-1]
    shown = "".join(letter if letter.isprintable() else "?" for letter in shown)
    return shown if len(shown) <= LETTERS else f"{shown[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def picture(image: Image, *, title: str, outline: Box | None = None) -> Plot:
    """Draw a picture in its own colours, with a line around a box.

    Args:
        image: The picture.
        title: What it is.
        outline: The box.

    Returns:
        The figure.
    """
    with styled():
        made = figure(PANEL, PANEL * image.height / image.width + 0.4)
        axes = made.add_subplot()
        ground(axes, image, pale=False)
        if outline is not None:
            _line(axes, outline)
        axes.set_title(title)
    return made


def _number(value: Tensor) -> str:
    """Two decimals, and no sign on a zero."""
    return f"{round(float(value), 2) + 0.0:.2f}"


def _cells(axes: Axes, values: Tensor, boxes: Tensor, scale: Tensor) -> None:
    """Boxes in the colours of their values, on a scale that holds ``scale``."""
    corners = [(left, top, right - left, bottom - top) for left, top, right, bottom in boxes.tolist()]
    cells = [Rectangle((left, top), width, height) for left, top, width, height in corners]
    least, most = COVER
    drawn = PatchCollection(cells, cmap=DIVERGING, norm=fitted(scale), linewidths=0)
    drawn.set_array(values.cpu().numpy())
    drawn.set_alpha((least + (most - least) * strength(values, scale)).tolist())
    axes.add_collection(drawn)


def _line(axes: Axes, box: Box) -> None:
    left, top, right, bottom = box
    for color, width in OUTLINE:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=color, linewidth=width))
