"""The order in which a tower keeps its patches, against the picture's own: row by row."""

import torch
from torch import Tensor

__all__ = ["inverse", "merge_block_order", "window_order"]


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


def window_order(rows: int, columns: int, merge: int, window: int) -> Tensor:
    """Which patch of the picture each row of a merging tower with attention windows is, such as Qwen2.5-VL's.

    The folds of a window stand together, so that attention within it is attention within one run of rows. The windows
    follow each other row by row, from the upper left corner of the frame, and so do a window's folds and a fold's
    patches. Where a side is no multiple of the window's, the last windows along it are smaller.

    Args:
        rows: Patches from top to bottom of one frame; a multiple of ``merge``.
        columns: Patches from left to right; a multiple of ``merge``.
        merge: The side of a fold, in patches.
        window: The side of a window, in patches: a tower's ``window_size // patch_size``. A window takes whole folds
            only, so its side is rounded down to a multiple of ``merge``.

    Returns:
        ``[rows * columns]``: at each row of the tower, the patch's number counted row by row over the picture. The
        frames of a video stand one after the other, each in this order.

    Raises:
        ValueError: A side is no multiple of ``merge``, or no fold fits into a window.
    """
    if merge < 1:
        raise ValueError(f"a fold of {merge} patches a side is none; pass a positive number")
    side = window // merge * merge
    if side < 1:
        raise ValueError(f"a window of {window} patches a side holds no fold of {merge} by {merge}")
    order = merge_block_order(rows, columns, merge)
    across = -(-columns // side)
    number = order // columns // side * across + order % columns // side
    return order[torch.argsort(number, stable=True)]


def inverse(order: Tensor) -> Tensor:
    """The way back of an order: ``values[inverse(order)]`` stand row by row where ``values`` stand in ``order``."""
    return torch.argsort(order)
