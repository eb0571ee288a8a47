"""What every overlay is drawn on: the picture over its own pixel coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ground"]

#: The picture is shown in pale grey, so that its own colours do not mix in.
PALE = 0.5


def ground(axes: Axes, image: Image, *, pale: bool) -> None:
    """Draw the picture, without ticks.

    Args:
        axes: Where to draw.
        image: The picture, in its own size.
        pale: Whether in pale grey.
    """
    width, height = image.size
    shown = image.convert("L").point([round(255 - PALE * (255 - level)) for level in range(256)]) if pale else image
    axes.imshow(shown.convert("RGB"), extent=(0, width, height, 0))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_xticks([])
    axes.set_yticks([])
