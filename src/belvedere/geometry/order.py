"""The order in which a tower keeps its patches, against the picture's own: row by row."""

import torch
from torch import Tensor

__all__ = ["inverse", "merge_block_order"]


def merge_block_order(rows: int, columns: int, merge: int) -> Tensor:
    """Which patch of the picture each row of a merging tower is.

    A tower that folds ``merge x merge`` patches into one image token keeps the patches of each fold together, so that
    the merger can lay them side by side with a reshape. The folds follow each other row by row; so do a fold's patches.

    Args:
        rows: Patches from top to bottom of one frame; a multiple of ``merge``.
        columns: Patches from left to right; a multiple of ``merge``.
        merge: The side of a fold.

    Returns:
        ``[rows * columns]``: at each row of the tower, the patch's number counted row by row over the picture.

    Raises:
        ValueError: A side is no multiple of ``merge``.
    """
    if rows % merge or columns % merge:
        raise ValueError(f"a grid of {rows} x {columns} patches cannot be folded {merge} by {merge}")
    numbered = torch.arange(rows * columns).view(rows // merge, merge, columns // merge, merge)
    return numbered.transpose(1, 2).flatten()


def inverse(order: Tensor) -> Tensor:
    """The way back of an order: ``values[inverse(order)]`` stand row by row where ``values`` stand in ``order``."""
    return torch.argsort(order)
