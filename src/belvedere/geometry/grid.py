"""A picture cut into equal cells."""

import torch
from torch import Tensor

__all__ = ["cell_boxes"]


def cell_boxes(rows: int, columns: int, size: tuple[float, float]) -> Tensor:
    """The boxes of a grid of cells, row by row.

    Args:
        rows: Cells from top to bottom.
        columns: Cells from left to right.
        size: Width and height of what is cut.

    Returns:
        ``[rows * columns, 4]`` in float64, each row ``(left, top, right, bottom)``.
    """
    width, height = size[0] / columns, size[1] / rows
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    corners = torch.stack([column, row, column + 1, row + 1], dim=-1).reshape(-1, 4).double()
    return corners * torch.tensor([width, height, width, height], dtype=torch.float64)
