"""How many tiles a picture is cut into: one function for each rule, with the ties of the processor that has it.

Every size is ``(width, height)``, and every grid ``(columns, rows)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

__all__ = ["canvas", "closest", "grids", "largest_shown", "least_resized", "ordered", "upscaled"]

Size = tuple[int, int]


def grids(most: int, least: int = 1) -> list[Size]:
    """Every grid of between ``least`` and ``most`` tiles, those of few tiles first."""
    every = [(columns, rows) for columns in range(1, most + 1) for rows in range(1, most + 1)]
    return sorted((one for one in every if least <= one[0] * one[1] <= most), key=lambda one: one[0] * one[1])


def ordered(most: int, least: int) -> list[Size]:
    """As `grids`, those of equally many tiles in the order of a set: LFM2-VL's, where it settles a tie."""
    ratios = [
        (columns, rows)
        for tiles in range(least, most + 1)
        for columns in range(1, tiles + 1)
        for rows in range(1, tiles + 1)
        if least <= columns * rows <= most
    ]
    return sorted(set(ratios), key=lambda one: one[0] * one[1])


def closest(size: Size, tile: Size, choices: Iterable[Size]) -> Size:
    """The grid whose aspect ratio is closest to the picture's. InternVL's, Aya Vision's and LFM2-VL's.

    Of equally close ones, the last of those with less than twice the picture's pixels.
    """
    ratio, area = size[0] / size[1], size[0] * size[1]
    best, least = (1, 1), float("inf")
    for grid in choices:
        off = abs(ratio - grid[0] / grid[1])
        if off < least:
            best, least = grid, off
        elif off == least and area > 0.5 * tile[0] * tile[1] * grid[0] * grid[1]:
            best = grid
    return best


def least_resized(size: Size, side: int, most: int) -> Size:
    """The grid that enlarges the picture least; where none can, the one that shrinks it least. Cohere 2 Vision's."""
    scales = [(min(grid[0] * side / size[0], grid[1] * side / size[1]), grid) for grid in grids(most)]
    enlarging = [one for one in scales if one[0] >= 1]
    if enlarging:
        return min(enlarging, key=lambda one: one[0])[1]
    return max(scales, key=lambda one: one[0])[1]


def largest_shown(size: Size, resolutions: Sequence[Sequence[int]]) -> Size:
    """The resolution that keeps most of the picture's pixels, of several the one with least padding. LLaVA-NeXT's.

    Args:
        size: Width and height.
        resolutions: Each ``(height, width)``, as the processor has them.
    """
    best, most, waste = (0, 0), 0, float("inf")
    for height, width in resolutions:
        scale = min(width / size[0], height / size[1])
        shown = min(int(size[0] * scale) * int(size[1] * scale), size[0] * size[1])
        if shown > most or (shown == most and width * height - shown < waste):
            best, most, waste = (width, height), shown, width * height - shown
    return best


def canvas(size: Size, side: int, most: int) -> Size:
    """The grid of tiles that enlarges the picture least, and of those the smallest. Mllama's."""
    scales = {grid: min(grid[1] * side / size[1], grid[0] * side / size[0]) for grid in grids(most)}
    enlarging = [scale for scale in scales.values() if scale >= 1]
    chosen = min(enlarging) if enlarging else max(scales.values())
    return next(grid for grid, scale in scales.items() if scale == chosen)


def upscaled(size: Size, side: int, most: int, largest: bool) -> tuple[Size, Size]:
    """The grid that enlarges the picture least, or most, and the size of the picture within it. Llama 4's.

    The processor reckons in single precision where a side of the canvas is what limits it, and so does this.

    Args:
        size: Width and height.
        side: The side of a tile.
        most: The most tiles.
        largest: Whether the picture fills the largest canvas.
    """
    sizes = torch.tensor([(rows * side, columns * side) for columns, rows in grids(most)])
    scales = torch.minimum(sizes[:, 0] / size[1], sizes[:, 1] / size[0])
    enlarging = scales[scales >= 1]
    chosen = (enlarging.max() if largest else enlarging.min()) if len(enlarging) else scales.max()
    options = sizes[scales == chosen]
    height, width = options[options.prod(-1).argmin()]
    limit = (width, height) if largest else (min(max(size[0], side), width), min(max(size[1], side), height))
    return (int(width) // side, int(height) // side), _filling(size, limit)


def _filling(size: Size, limit: tuple[Any, Any]) -> Size:
    """A limit that is a tensor makes its scale one of single precision."""
    across, down = limit[0] / size[0], limit[1] / size[1]
    if across < down:
        return int(limit[0]), max(min(math.floor(float(size[1] * across)), int(limit[1])), 1)
    return max(min(math.floor(float(size[0] * down)), int(limit[0])), 1), int(limit[1])
