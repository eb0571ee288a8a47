"""How many tiles and image tokens each picture becomes, where a wrapper cuts its pictures by their size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import torch

__all__ = ["Stitched", "anyres", "anyres_scaled", "halved", "one_each", "stitched", "stitched_scaled"]


@dataclass(frozen=True, kw_only=True)
class Stitched:
    """A picture's tiles as one grid of patches, and the lines of tokens that become of it.

    Args:
        tiles: Rows and columns of tiles.
        top: The first row of patches that shows the picture, and not what pads it.
        left: The first such column.
        rows: How many rows of patches show the picture.
        columns: How many columns.
        lines: How many lines of tokens they become; fewer than ``rows`` where they are scaled down.
        length: How many tokens a line has, without its newline.
    """

    tiles: tuple[int, int]
    top: int
    left: int
    rows: int
    columns: int
    lines: int
    length: int

    @property
    def tokens(self) -> int:
        """The tokens of all lines, newlines among them."""
        return self.lines * (self.length + 1)


def stitched(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[Stitched]:
    """LLaVA-NeXT: tiles without their padding, a newline after each row."""
    return [_stitched(config, size, rows, columns, limit=0) for size in encoding["image_sizes"].tolist()]


def stitched_scaled(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[Stitched | None]:
    """LLaVA-OneVision: as `stitched`, scaled down past a number of tiles; only a prompt's lone picture is cut."""
    sizes = encoding["image_sizes"].tolist()
    counts = encoding.get("batch_num_images")
    alone = [True] * len(sizes) if counts is None else [count == 1 for count in counts for _ in range(int(count))]
    limit = int(config.vision_aspect_ratio.removeprefix("anyres_max_"))
    return [
        _stitched(config, size, rows, columns, limit) if cut else None for size, cut in zip(sizes, alone, strict=True)
    ]


def anyres(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
    """LLaVA-NeXT: the whole picture as one tile, then what is `stitched`."""
    return [_counted(own, rows * columns) for own in stitched(config, encoding, rows, columns)]


def anyres_scaled(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
    """LLaVA-OneVision: the whole picture as one tile, then what is `stitched_scaled`."""
    return [_counted(own, rows * columns) for own in stitched_scaled(config, encoding, rows, columns)]


def halved(rows: int, columns: int) -> tuple[int, int]:
    """LLaVA-OneVision: a video's frame has half as many tokens a side as patches, rounded up."""
    return ceil(rows / 2), ceil(columns / 2)


def _counted(own: Stitched | None, whole: int) -> tuple[int, int]:
    """Tiles and tokens, those of the whole picture among them; a picture that is not cut has one newline."""
    return (1, whole + 1) if own is None else (own.tiles[0] * own.tiles[1] + 1, whole + own.tokens)


def _stitched(config: Any, size: list[int], rows: int, columns: int, limit: int) -> Stitched:
    from transformers.image_processing_utils import select_best_resolution

    side = config.vision_config.image_size
    height, width = select_best_resolution(tuple(size), config.image_grid_pinpoints)
    high, wide = height // side * rows, width // side * columns
    shown = _unpadded(size, high, wide)
    ratio = sqrt(shown[0] * shown[1] / (limit * rows**2)) if limit else 0.0
    lines, length = (int(count // ratio) for count in shown) if ratio > 1.1 else shown
    return Stitched(
        tiles=(ceil(height / side), ceil(width / side)),
        top=(high - shown[0]) // 2,
        left=(wide - shown[1]) // 2,
        rows=shown[0],
        columns=shown[1],
        lines=lines,
        length=length,
    )


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
