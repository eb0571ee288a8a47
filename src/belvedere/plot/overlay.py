"""Values laid over the picture that they are about, each in its own box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle
from torch import Tensor

from belvedere.plot.ground import ground
from belvedere.plot.style import DIVERGING, OUTLINE, Plot, figure, fitted, strength, styled

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["picture", "strips"]

Box = tuple[float, float, float, float]
COLUMNS = 4
PANEL = 2.6
#: How much of the picture a cell covers, from one that does nothing to the strongest.
COVER = (0.1, 0.85)


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
    with styled():
        made = figure(across * (PANEL + 0.75), down * (tall + 0.45) + 0.8)
        made.suptitle(f"{heading}\n{unit}; each panel has its own scale")
        for number, (row, title) in enumerate(zip(values, titles, strict=True)):
            axes = made.add_subplot(down, across, number + 1)
            ground(axes, image, pale=True)
            _cells(axes, row, boxes)
            if outline is not None:
                _line(axes, outline)
            axes.set_title(f"{title}: {_number(row.min())} to {_number(row.max())}")
            beside = axes.inset_axes((1.03, 0, 0.05, 1))
            made.colorbar(ScalarMappable(fitted(row), DIVERGING), cax=beside).ax.tick_params(labelsize=8)
    return made


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


def _cells(axes: Axes, values: Tensor, boxes: Tensor) -> None:
    corners = [(left, top, right - left, bottom - top) for left, top, right, bottom in boxes.tolist()]
    cells = [Rectangle((left, top), width, height) for left, top, width, height in corners]
    least, most = COVER
    drawn = PatchCollection(cells, cmap=DIVERGING, norm=fitted(values), linewidths=0)
    drawn.set_array(values.cpu().numpy())
    drawn.set_alpha((least + (most - least) * strength(values)).tolist())
    axes.add_collection(drawn)


def _line(axes: Axes, box: Box) -> None:
    left, top, right, bottom = box
    for color, width in OUTLINE:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=color, linewidth=width))
