"""One rectangle of pixels that a tower takes whole, and the two things that a processor does to it.

However long its code, an image processor only ever resizes a rectangle or cuts a window out of it; padding is a window
that reaches outside. Each step keeps the way back to the original picture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from belvedere.errors import InputError
from belvedere.geometry.view import View

__all__ = ["Piece", "whole"]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One rectangle of pixels that the tower takes whole: a picture, a tile of it, or its thumbnail.

    Args:
        view: From this piece's pixels to the original picture's.
        visible: The box, in this piece's pixels, that shows the picture; the rest is padding. Without area where a
            tile is padding and nothing else.
        kind: ``picture`` where it is all there is; ``tile`` for a part; ``thumbnail`` for the whole picture again,
            beside its tiles.
        row: Where a tile stands among the picture's tiles, from the top.
        column: Where a tile stands among the picture's tiles, from the left.
    """

    view: View
    visible: tuple[float, float, float, float]
    kind: Literal["picture", "tile", "thumbnail"] = "picture"
    row: int = 0
    column: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the piece, padding and all."""
        return self.view.size

    def resized(self, size: tuple[int, int]) -> Piece:
        """All of this, stretched to another size.

        Args:
            size: Width and height of the result.

        Raises:
            InputError: A side would have no pixel.
        """
        _positive(size)
        across, down = size[0] / self.size[0], size[1] / self.size[1]
        scale = (self.view.scale[0] * across, self.view.scale[1] * down)
        offset = (self.view.offset[0] * across, self.view.offset[1] * down)
        # Divided last, so that whole pixels stay whole.
        left, right = (self.visible[side] * size[0] / self.size[0] for side in (0, 2))
        top, bottom = (self.visible[side] * size[1] / self.size[1] for side in (1, 3))
        return replace(
            self, view=replace(self.view, size=size, scale=scale, offset=offset), visible=(left, top, right, bottom)
        )

    def window(self, corner: tuple[int, int], size: tuple[int, int]) -> Piece:
        """What a window shows of this; padding where it reaches outside.

        Args:
            corner: Left and top of the window in this piece's pixels; negative to pad there.
            size: Its width and height.

        Raises:
            InputError: A side would have no pixel.
        """
        _positive(size)
        offset = (self.view.offset[0] + corner[0], self.view.offset[1] + corner[1])
        view = replace(self.view, size=size, offset=offset)
        left, right = (min(max(self.visible[side] - corner[0], 0), size[0]) for side in (0, 2))
        top, bottom = (min(max(self.visible[side] - corner[1], 0), size[1]) for side in (1, 3))
        return replace(self, view=view, visible=(left, top, right, bottom))

    def padded(self, size: tuple[int, int]) -> Piece:
        """This in the top left corner of a larger rectangle."""
        return self.window((0, 0), size)

    def centred(self, size: tuple[int, int]) -> Piece:
        """This in the middle of a larger rectangle; the odd pixel of padding goes behind."""
        return self.window((-((size[0] - self.size[0]) // 2), -((size[1] - self.size[1]) // 2)), size)

    def tiles(self, side: tuple[int, int]) -> list[Piece]:
        """This cut into tiles, row by row; those at the right and at the bottom are as large as what is left.

        Args:
            side: Width and height of a tile.
        """
        (width, height), (across, down) = self.size, side
        return [
            replace(
                self.window((left, top), (min(across, width - left), min(down, height - top))),
                kind="tile",
                row=top // down,
                column=left // across,
            )
            for top in range(0, height, down)
            for left in range(0, width, across)
        ]

    def apart(self) -> Piece:
        """The same, whose boxes end where it does now: for a part that is padded by itself later on."""
        left, top, right, bottom = self.view.boxes(torch.tensor([0, 0, *self.size])).tolist()
        return replace(self, view=replace(self.view, limits=(left, top, right, bottom)))

    def thumbnail(self) -> Piece:
        """The same, as the whole picture beside its tiles."""
        return replace(self, kind="thumbnail")


def whole(size: tuple[int, int]) -> Piece:
    """The original picture, before anything is done to it.

    Args:
        size: Its width and height.
    """
    _positive(size)
    return Piece(view=View(size=size, scale=(1.0, 1.0)), visible=(0, 0, *size))


def _positive(size: tuple[int, int]) -> None:
    if min(size) < 1:
        raise InputError(f"the processor would make {size[0]} x {size[1]} pixels of this; pass a larger picture")
