"""The box of each tower row and of each image token, in the pixels of the original picture."""

import torch
from torch import Tensor

from belvedere.geometry.grid import cell_boxes
from belvedere.geometry.order import merge_block_order
from belvedere.geometry.view import View, stretched

__all__ = ["boxes_over", "fixed_patch_boxes", "packed_patch_boxes", "packed_token_boxes"]


def fixed_patch_boxes(view: View, patch: int) -> Tensor:
    """The patches of a tower that takes pictures of one size and keeps them row by row, such as CLIP's.

    Where every patch becomes an image token, as in LLaVA-1.5, these are the image tokens' boxes too.

    Args:
        view: What the tower sees of the picture.
        patch: The side of a patch, in the tower's pixels.

    Returns:
        ``[patches, 4]``, without CLS; boxes may be cut off at the picture's border or lie outside of it.
    """
    width, height = view.size
    return view.boxes(cell_boxes(height // patch, width // patch, (width // patch * patch, height // patch * patch)))


def packed_patch_boxes(size: tuple[int, int], grid: tuple[int, int, int], merge: int) -> Tensor:
    """The patches of one picture of a packed tower, such as the Qwen ViT, in the tower's own order.

    Args:
        size: Width and height of the original picture.
        grid: Frames, rows and columns of its patches, as the encoding's ``image_grid_thw`` has them.
        merge: How many patches a side are folded into an image token.

    Returns:
        ``[frames * rows * columns, 4]``.
    """
    frames, rows, columns = grid
    one = cell_boxes(rows, columns, (columns, rows))[merge_block_order(rows, columns, merge)]
    return stretched(size, (columns, rows)).boxes(one).repeat(frames, 1)


def packed_token_boxes(size: tuple[int, int], grid: tuple[int, int, int], merge: int) -> Tensor:
    """The image tokens of one picture of a packed tower, row by row: each covers ``merge x merge`` patches.

    Args:
        size: Width and height of the original picture.
        grid: Frames, rows and columns of its patches.
        merge: How many patches a side are folded into an image token.

    Returns:
        ``[frames * rows * columns / merge**2, 4]``.
    """
    frames, rows, columns = grid
    return cell_boxes(rows // merge, columns // merge, size).repeat(frames, 1)


def boxes_over(boxes: Tensor, box: tuple[float, float, float, float]) -> Tensor:
    """Which boxes share area with a box.

    Args:
        boxes: ``[n, 4]``.
        box: One box, such as an object's.

    Returns:
        ``[n]``, True where they overlap; a shared border is no overlap.
    """
    left, top, right, bottom = box
    across = (boxes[:, 0] < right) & (boxes[:, 2] > left)
    down = (boxes[:, 1] < bottom) & (boxes[:, 3] > top)
    return torch.logical_and(across, down)
