"""Where each patch of a pack is, and which entries of a learned position table make its position embedding."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from belvedere.geometry.pack import Merge, Pack, Places, device_of, host_grids, locate, per_entry

__all__ = [
    "BICUBIC",
    "BILINEAR",
    "BILINEAR_BORDERS",
    "BILINEAR_ZEROS",
    "Resampling",
    "vision_frame_ids",
    "vision_interpolation",
    "vision_position_ids",
]


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How a square table of position embeddings is stretched over a grid of another size.

    Args:
        taps: Entries of the table along each axis that a patch takes: 2 in a straight line between neighbours, or 4
            under Keys' cubic kernel with ``a = -0.75``, PyTorch's own.
        aligned: What of the table lies on the same of the grid: the centres of the corner cells, or the outer borders;
            PyTorch calls them ``align_corners=True`` and ``False``.
        beyond: What a tap outside of the table counts as: the nearest entry, or zero.
    """

    taps: Literal[2, 4] = 2
    aligned: Literal["corners", "borders"] = "corners"
    beyond: Literal["nearest", "zero"] = "nearest"

    def __post_init__(self) -> None:
        known = {"taps": (2, 4), "aligned": ("corners", "borders"), "beyond": ("nearest", "zero")}
        for name, among in known.items():
            if getattr(self, name) not in among:
                raise ValueError(f"{name}={getattr(self, name)!r} is none of {', '.join(map(repr, among))}")


BILINEAR = Resampling()
"""Qwen3-VL, Qwen3.5 and their kin."""
BICUBIC = Resampling(taps=4, aligned="borders")
"""Kimi K2.5."""
BILINEAR_BORDERS = Resampling(aligned="borders")
"""PaddleOCR-VL."""
BILINEAR_ZEROS = Resampling(aligned="borders", beyond="zero")
"""Muse, whose grids it gets with rows and columns exchanged."""


def vision_position_ids(grid: Pack, spatial_merge_size: Merge, device: torch.device | str | None = None) -> Tensor:
    """The row and the column of each patch of a pack, in merge-block order; a tower's rotary embedding turns by them.

    Args:
        grid: ``(t, h, w)`` of each picture or video.
        spatial_merge_size: How many patches a side are folded into an image token; 1 for a tower that keeps its patches
            row by row, such as Pixtral's and Kimi's. One number for each entry where they differ.
        device: Where the result goes.

    Returns:
        ``[patches, 2]``; every frame of a video has the same.

    Raises:
        ValueError: A grid cannot be folded.
    """
    where = _where(grid, spatial_merge_size)
    return torch.stack([where.row, where.column], dim=1).to(device_of(device))


def vision_frame_ids(grid: Pack, device: torch.device | str | None = None) -> Tensor:
    """The frame of each patch of a pack, counted from 0 in each picture or video.

    Kimi's table of times has a row of zeros ahead of frame 0 for pictures, which have no time.

    Args:
        grid: ``(t, h, w)`` of each picture or video.
        device: Where the result goes.

    Returns:
        ``[patches]``.
    """
    return _where(grid, 1).frame.to(device_of(device))


def vision_interpolation(
    grid: Pack,
    num_grid_per_side: int,
    spatial_merge_size: Merge,
    device: torch.device | str | None = None,
    resampling: Resampling = BILINEAR,
) -> tuple[Tensor, Tensor]:
    """The entries of a square learned position table that make each patch's embedding, and their weights.

    Each axis is interpolated by itself; a patch's taps are the outer product of its row's and its column's. So
    ``(table[indices] * weights[..., None]).sum(1)`` are the embeddings, ``table`` being ``[side * side, width]``.

    Args:
        grid: ``(t, h, w)`` of each picture or video.
        num_grid_per_side: The table's side.
        spatial_merge_size: How many patches a side are folded into an image token; 1 for row by row, as Kimi's are.
        device: Where the results go.
        resampling: `BILINEAR` as in Qwen3-VL and Qwen3.5, `BICUBIC` as in Kimi K2.5, or another.

    Returns:
        Indices into the flattened table, ``[patches, 4]``, and float32 weights, ``[patches, 4]``: the 2 x 2
        neighbourhood, upper row first. ``[patches, 16]`` where ``resampling`` takes 4 taps.

    Raises:
        ValueError: A grid cannot be folded.
    """
    if num_grid_per_side < 1:
        raise ValueError(f"a table of {num_grid_per_side} entries a side has none to take; pass a positive number")
    where, side = _where(grid, spatial_merge_size), num_grid_per_side
    down, down_weights = _taps(where.row, where.rows, side, resampling)
    across, across_weights = _taps(where.column, where.columns, side, resampling)
    indices = (down[:, :, None] * side + across[:, None, :]).flatten(1)
    weights = (down_weights[:, :, None] * across_weights[:, None, :]).flatten(1)
    return indices.to(device_of(device)), weights.to(device_of(device))


def _where(grid: Pack, merge: Merge) -> Places:
    grids = host_grids(grid)
    return locate(grids, per_entry(merge, grids))


def _taps(number: Tensor, length: Tensor, side: int, resampling: Resampling) -> tuple[Tensor, Tensor]:
    """The taps of one axis and their weights, ``[patches, taps]`` each: a patch's number along it, of so many."""
    at = number.to(torch.float32)
    if resampling.aligned == "corners":
        at = at * (side - 1) / (length - 1).clamp(min=1)
    else:
        at = (at + 0.5) * side / length - 0.5
    first = at.floor()
    offsets = torch.arange(resampling.taps, device=at.device) - (resampling.taps // 2 - 1)
    taps = first.long()[:, None] + offsets
    distance = (at[:, None] - first[:, None] - offsets).abs()
    weights = (1 - distance).clamp(min=0) if resampling.taps == 2 else _cubic(distance)
    if resampling.beyond == "zero":
        weights = weights * ((taps >= 0) & (taps < side))
    return taps.clamp(0, side - 1), weights


def _cubic(distance: Tensor) -> Tensor:
    """Keys' kernel with the ``a`` of ``torch.nn.functional.interpolate``."""
    a = -0.75
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance <= 1, near, far)
