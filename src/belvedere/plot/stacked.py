"""Boxes that lie over each other: those of a picture and of its thumbnail, and those that several tokens share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Sheaf", "sheaves"]

#: Boxes lie over each other where more than this of the smaller is the other's too.
MUCH = 0.25


@dataclass(frozen=True, kw_only=True)
class Sheaf:
    """Boxes of which none lies over another.

    Args:
        name: What they are; empty for the picture's own.
        boxes: ``[n, 4]``.
        members: ``[m]``, which of all boxes they are, those that share one together.
        own: ``[m]``, which box of the sheaf each member has.
    """

    name: str
    boxes: Tensor
    members: Tensor
    own: Tensor

    @property
    def shared(self) -> bool:
        """Whether several have one box."""
        return len(self.members) > len(self.boxes)

    def mean(self, values: Tensor) -> Tensor:
        """Of values ``[..., all boxes]`` those of this sheaf, ``[..., n]``; the mean of those that share a box."""
        found = values[..., self.members]
        if not self.shared:
            return found
        made = found.new_zeros(*found.shape[:-1], len(self.boxes)).index_add(-1, self.own, found)
        return made / torch.bincount(self.own).to(made)

    def strongest(self, values: Tensor) -> list[int]:
        """Which of all boxes stands for each of the sheaf's: the one with the greatest of some values ``[all]``."""
        order = values[self.members].argsort()
        # The last that is written to a box is the greatest.
        found = dict(zip(self.own[order].tolist(), self.members[order].tolist(), strict=True))
        return [found[box] for box in range(len(self.boxes))]


def sheaves(boxes: Tensor) -> list[Sheaf]:
    """Boxes apart, where they lie over each other: the picture's own first, larger ones behind it.

    Args:
        boxes: ``[n, 4]``.
    """
    single, own = torch.unique(boxes, dim=0, return_inverse=True)
    if len(single) == len(boxes):
        single, own = boxes, torch.arange(len(boxes))
    area = (single[:, 2:] - single[:, :2]).clamp_min(0).prod(-1)
    low = torch.maximum(single[:, None, :2], single[None, :, :2])
    high = torch.minimum(single[:, None, 2:], single[None, :, 2:])
    common = (high - low).clamp_min(0).prod(-1)
    over = common > MUCH * torch.minimum(area[:, None], area[None])
    over.fill_diagonal_(False)
    layers = _layers(over, area)
    named = zip(["", *["thumbnail"] * (len(layers) - 1)], layers, strict=True)
    return [_sheaf(name, kept, single, own) for name, kept in named]


def _layers(over: Tensor, area: Tensor) -> list[Tensor]:
    """Indices apart, so that none of a layer lies over another: small boxes first."""
    if not bool(over.any()):
        return [torch.arange(len(area))]
    held: list[Tensor] = []
    for number in area.argsort(stable=True).tolist():
        free = next((layer for layer in held if not bool((over[number] & layer).any())), None)
        if free is None:
            free = torch.zeros(len(area), dtype=torch.bool)
            held.append(free)
        free[number] = True
    return [layer.nonzero().flatten() for layer in held]


def _sheaf(name: str, kept: Tensor, single: Tensor, own: Tensor) -> Sheaf:
    place = torch.full((len(single),), -1)
    place[kept] = torch.arange(len(kept))
    members = (place[own] >= 0).nonzero().flatten()
    return Sheaf(name=name, boxes=single[kept], members=members, own=place[own[members]])
