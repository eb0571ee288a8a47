"""How the pixels that a tower sees lie in the original picture."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["View"]


@dataclass(frozen=True, kw_only=True)
class View:
    """What a tower sees of a picture: a resized copy, of which a window is cut out.

    Args:
        size: Width and height of the window, in the tower's pixels.
        scale: The tower's pixels per pixel of the original, across and down.
        offset: Where the window begins in the resized copy, ``(left, top)``; negative where the copy is padded.
        limits: A box of the original that no box may leave; that of a tile that is padded by itself, beyond which the
            picture goes on and the tile does not. None where padding is around the whole picture.
    """

    size: tuple[int, int]
    scale: tuple[float, float]
    offset: tuple[float, float] = (0, 0)
    limits: tuple[float, float, float, float] | None = None

    def boxes(self, seen: Tensor) -> Tensor:
        """Boxes of the tower's pixels as boxes of the original's.

        Args:
            seen: ``[..., 4]``.

        Returns:
            ``[..., 4]`` in float64. A box over padding lies outside of the original picture, or is empty and lies on
            the limits.
        """
        offset = torch.tensor([*self.offset, *self.offset], dtype=torch.float64)
        scale = torch.tensor([*self.scale, *self.scale], dtype=torch.float64)
        boxes = (seen.double() + offset) / scale
        if self.limits is None:
            return boxes
        left, top, right, bottom = self.limits
        least, most = boxes.new_tensor([left, top, left, top]), boxes.new_tensor([right, bottom, right, bottom])
        return torch.clamp(boxes, least, most)
