"""What every overlay is drawn on: the picture over its own pixel coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ground", "reduced"]

#: The picture is shown in pale grey, so that its own colours do not mix in.
PALE = 0.5
#: Dots that an inch of a panel can show.
SHARP = 300


def ground(axes: Axes, image: Image, *, pale: bool, size: tuple[int, int] | None = None) -> None:
    """Draw the picture, without ticks.

    Args:
        axes: Where to draw.
        image: The picture.
        pale: Whether in pale grey.
        size: Width and height of its coordinates, where it was reduced.
    """
    width, height = size or image.size
    shown = image.convert("L").point([round(255 - PALE * (255 - level)) for level in range(256)]) if pale else image
    axes.imshow(shown.convert("RGB"), extent=(0, width, height, 0))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_xticks([])
    axes.set_yticks([])


def reduced(image: Image, inches: float) -> Image:
    """A picture with no more dots than a panel of so many inches can show: each panel keeps a copy of its own."""
    most = max(image.size)
    if most <= SHARP * inches:
        return image
    wide, high = (max(1, round(side * SHARP * inches / most)) for side in image.size)
    return image.convert("RGB").resize((wide, high), reducing_gap=2.0)
