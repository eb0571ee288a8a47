"""How many tiles and image tokens each picture becomes, where a wrapper cuts its pictures by their size."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any

import torch

__all__ = ["anyres", "anyres_scaled", "one_each"]


def anyres(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
    """LLaVA-NeXT: the whole picture as one tile, then its tiles without their padding, a newline after each row."""
    return [_tile_and_tokens(config, size, rows, columns, limit=0) for size in encoding["image_sizes"].tolist()]


def anyres_scaled(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
    """LLaVA-OneVision: as `anyres`, scaled down past a number of tiles; a prompt's only picture is cut, others not."""
    sizes = encoding["image_sizes"].tolist()
    counts = encoding.get("batch_num_images")
    alone = [True] * len(sizes) if counts is None else [count == 1 for count in counts for _ in range(int(count))]
    limit = int(config.vision_aspect_ratio.removeprefix("anyres_max_"))
    whole = (1, rows * columns + 1)
    return [
        _tile_and_tokens(config, size, rows, columns, limit) if cut else whole
        for size, cut in zip(sizes, alone, strict=True)
    ]


def _tile_and_tokens(config: Any, size: list[int], rows: int, columns: int, limit: int) -> tuple[int, int]:
    from transformers.image_processing_utils import select_best_resolution

    side = config.vision_config.image_size
    height, width = select_best_resolution(tuple(size), config.image_grid_pinpoints)
    tiles = ceil(height / side) * ceil(width / side) + 1
    lines, length = _unpadded(size, height // side * rows, width // side * columns)
    ratio = sqrt(lines * length / (limit * rows**2)) if limit else 0.0
    if ratio > 1.1:
        lines, length = int(lines // ratio), int(length // ratio)
    return tiles, rows * columns + lines * (length + 1)


def _unpadded(size: list[int], rows: int, columns: int) -> tuple[int, int]:
    """The patch rows and columns that show the picture, and not the padding on two of its sides."""
    height, width = size
    if width / height > columns / rows:
        return rows - 2 * ((rows - int(round(height * (columns / width), 7))) // 2), columns
    return rows, columns - 2 * ((columns - int(round(width * (rows / height), 7))) // 2)


def one_each(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
    """Mllama: one placeholder for a picture, and room for as many tiles as any may have; a ratio of 0 is no picture."""
    ratios, most = torch.as_tensor(encoding["aspect_ratio_ids"]), int(encoding["pixel_values"].shape[2])
    return [(most, 1)] * int(ratios.ne(0).sum())
