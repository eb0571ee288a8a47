"""Boxes, as rows of a tensor: ``(left, top, right, bottom)``."""

from torch import Tensor, logical_and

__all__ = ["boxes_over"]


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
    return logical_and(across, down)
