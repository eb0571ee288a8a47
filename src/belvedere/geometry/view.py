"""How the pixels that a tower sees lie in the original picture."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["View", "cropped", "stretched"]


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


def stretched(size: tuple[int, int], seen: tuple[int, int]) -> View:
    """The whole picture, resized to another size, aspect ratio and all; what Qwen's and SigLIP's processors do.

    Args:
        size: Width and height of the original.
        seen: Width and height of what the tower sees.
    """
    return View(size=seen, scale=(seen[0] / size[0], seen[1] / size[1]))


def cropped(size: tuple[int, int], shortest_edge: int, crop: tuple[int, int]) -> View:
    """The middle of the picture, after its shorter side was resized; what CLIP's processor does.

    Args:
        size: Width and height of the original.
        shortest_edge: What the shorter side becomes; the longer one follows, rounded down.
        crop: Width and height of the middle that is kept.
    """
    short = min(size)
    copy = [shortest_edge if side == short else int(shortest_edge * side / short) for side in size]
    return View(
        size=crop,
        scale=(copy[0] / size[0], copy[1] / size[1]),
        offset=(_margin(copy[0], crop[0]), _margin(copy[1], crop[1])),
    )


def _margin(length: int, kept: int) -> int:
    """What a centred window leaves ahead of it; padding counts as negative, and the odd pixel of either is behind."""
    return (length - kept) // 2 if length >= kept else -((kept - length) // 2)
