"""Whether an engine's answers are the model's: tried against whole forwards before a sweep relies on it."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["agree", "trial_cells"]


def agree(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> bool:
    """Whether two ways to the same logits differ by no more than a model of this type rounds."""
    if ours.shape != theirs.shape:
        return False
    scale = float(theirs.abs().amax())
    return bool((ours - theirs).abs().amax() <= 8 * scale * float(torch.finfo(dtype).eps) ** 0.75)


def trial_cells(groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """All swept positions at once, and the later half of them."""
    wanted = sorted({number for group in groups for number in group})
    return tuple(wanted), tuple(wanted[len(wanted) // 2 :])
