"""From which positions on a stack can run alone: those before which nothing attends to anything behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from belvedere.experiments.engine.growth import is_square

__all__ = ["EVERY", "attends", "cuts_of"]

#: For blocks whose positions see those before them and no others.
EVERY = "every position"


def attends(held: Tensor) -> Tensor:
    """Which position attends to which, ``[positions, positions]``, from an attention's mask, over all its heads."""
    open_ = held if held.dtype == torch.bool else held > torch.finfo(held.dtype).min / 2
    return open_.flatten(0, -3).any(0)


def cuts_of(masks: Iterable[Any], length: int, kept: Tensor) -> Tensor:
    """``[positions + 1]``: True where nothing before a position attends to it or to what is behind it.

    Args:
        masks: What the blocks' attentions are masked by; `EVERY` where they are causal without a mask.
        length: How many positions there are.
        kept: Which of them are no padding; what padding attends to nobody reads.
    """
    allowed = torch.ones(length + 1, dtype=torch.bool)
    for mask in {id(mask): mask for mask in masks}.values():
        if isinstance(mask, str):
            continue
        if not is_square(mask, length):
            allowed[1:-1] = False
            continue
        seen = attends(mask).cpu() & kept.cpu()[:, None]
        columns = torch.arange(length)
        farthest = torch.where(seen, columns, -1).amax(1).cummax(0).values
        allowed[1:] &= farthest < torch.arange(1, length + 1)
    return allowed
