"""The pictures of an input: opening them, and counting what they become in the tower and in the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import torch

from belvedere.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Pictures", "count_pictures", "described", "open_picture"]


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """The pictures of one invoke: how many patches and image tokens each has.

    Args:
        patches: The rows that each picture has in the tower, frames together.
        tokens: The placeholders that each picture has in the text sequence.
        grids: ``(frames, rows, columns)`` of each picture's patches.
        tiles: How many tiles each picture is cut into, each a row on the tower's image axis; one by default.
        pieces: The image tokens of each tile, all pictures in a row, where tiles differ in shape.
        placeholders: The image tokens of the prompt, all pictures together.
        videos: Whether a video is among the inputs.
        unknown: Whether the input is encoded by someone else, so that it may show anything.
    """

    patches: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    grids: tuple[tuple[int, int, int], ...] = ()
    tiles: tuple[int, ...] = ()
    pieces: tuple[int, ...] = ()
    placeholders: int = 0
    videos: bool = False
    unknown: bool = False

    @property
    def count(self) -> int:
        """How many pictures there are."""
        return len(self.patches)

    @property
    def images(self) -> int:
        """How many rows the pictures have on the tower's image axis: one each, or one for each tile."""
        return sum(self.tiles) if self.tiles else self.count


def count_pictures(vision: Any, encoding: Mapping[str, Any]) -> Pictures:
    """How many patches and image tokens each picture of an encoding has, from its grid, its size or its pixels.

    Args:
        vision: The tower's envoy.
        encoding: Model inputs.
    """
    videos = encoding.get("pixel_values_videos") is not None
    placeholders = _placeholders(vision, encoding)
    tiles: list[int] = []
    if encoding.get("image_grid_thw") is not None:
        grids = [(int(frames), int(rows), int(columns)) for frames, rows, columns in encoding["image_grid_thw"]]
        fold = vision.spatial_merge_size**2
        tokens = [frames * rows * columns // fold for frames, rows, columns in grids]
    elif vision.root.family.facts.tiled is not None:
        shown = _tiled(vision, encoding)
        tiles, tokens = [tile for tile, _ in shown], [count for _, count in shown]
        starts = accumulate(tiles, initial=0)
        grids = [(tile, *_tile(vision, encoding, start)) for tile, start in zip(tiles, starts, strict=False)]
    else:
        grids = _grids(vision, encoding)
        tokens = _tokens(vision, encoding, grids)
    return Pictures(
        patches=tuple(_rows(encoding, grids)),
        tokens=tuple(tokens),
        grids=tuple(grids),
        tiles=tuple(tiles),
        pieces=tuple(_pieces(vision, encoding)),
        placeholders=placeholders,
        videos=videos,
    )


def _placeholders(vision: Any, encoding: Mapping[str, Any]) -> int:
    token, ids = vision.root.placeholder("image"), encoding.get("input_ids")
    return 0 if token is None or ids is None else int((torch.as_tensor(ids) == token).sum())


def _rows(encoding: Mapping[str, Any], grids: list[tuple[int, int, int]]) -> list[int]:
    """How many rows each picture has in the tower: its patches, and what pads them where they come padded."""
    if encoding.get("spatial_shapes") is not None and grids:
        return [tiles * int(encoding["pixel_values"].shape[1]) for tiles, _, _ in grids]
    return [frames * rows * columns for frames, rows, columns in grids]


def _grids(vision: Any, encoding: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """The patch grid of each picture that a tower of square patches sees, a tile counting as a picture."""
    if encoding.get("image_position_ids") is not None:
        # Each patch's column and row, -1 on padding.
        last = torch.as_tensor(encoding["image_position_ids"]).amax(1) + 1
        return [(1, int(rows), int(columns)) for columns, rows in last]
    pixels, sizes = encoding.get("pixel_values"), encoding.get("image_sizes")
    if encoding.get("spatial_shapes") is not None:
        return [(1, int(rows), int(columns)) for rows, columns in encoding["spatial_shapes"]]
    if pixels is None or pixels.ndim < 4:
        return []
    if vision.root.family.rows.packed and sizes is not None:
        return [(1, int(height) // vision.patch_size, int(width) // vision.patch_size) for height, width in sizes]
    rows, columns = (side // vision.patch_size for side in pixels.shape[-2:])
    return [(1, rows, columns)] * (pixels[..., 0, 0, 0].numel())


def _tile(vision: Any, encoding: Mapping[str, Any], number: int = 0) -> tuple[int, int]:
    """The patch rows and columns of one tile; all are alike unless the encoding says each one's shape."""
    if encoding.get("spatial_shapes") is not None:
        rows, columns = map(int, encoding["spatial_shapes"][number])
        return rows, columns
    rows, columns = (side // vision.patch_size for side in encoding["pixel_values"].shape[-2:])
    return rows, columns


def _tiled(vision: Any, encoding: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The tiles and the image tokens of each picture, where the wrapper has a rule of its own."""
    if encoding.get("pixel_values") is None:
        return []
    facts, config = vision.root.family.facts, vision.root.source_config
    shown: list[tuple[int, int]] = facts.tiled(config, encoding, *_tile(vision, encoding))
    return shown if facts.alike is None else _parted(shown, facts.alike(vision.root.processor))


def _parted(runs: list[tuple[int, int]], each: int) -> list[tuple[int, int]]:
    """Runs of pictures, all cut into as many tiles, by picture; into one each where a run is no multiple of them."""
    if any(tiles % each for tiles, _ in runs):
        each = 1
    return [(each, tokens // tiles * each) for tiles, tokens in runs for _ in range(tiles // each)]


def _pieces(vision: Any, encoding: Mapping[str, Any]) -> list[int]:
    """The image tokens of each tile, where the encoding says the shape of each."""
    return [] if encoding.get("spatial_shapes") is None else _tokens(vision, encoding, _grids(vision, encoding))


def _tokens(vision: Any, encoding: Mapping[str, Any], grids: list[tuple[int, int, int]]) -> list[int]:
    family, config = vision.root.family, vision.root.source_config
    if family.facts.tokens is None:
        return []
    strategy = encoding.get("vision_feature_select_strategy") or getattr(
        config, "vision_feature_select_strategy", "default"
    )
    before = family.rows.before * (strategy == "full")
    return [family.facts.tokens(config, rows, columns, before) for _, rows, columns in grids]


def open_picture(given: Any, number: int = 0) -> Image:
    """A picture as RGB, from a PIL image, a path, a URL, an array or a tensor.

    Grey, palette, CMYK and 16-bit pictures keep their look; a 16-bit one is scaled to 8 bits and not clipped.

    Raises:
        InputError: It is no picture, or its file is damaged.
    """
    import numpy as np
    from PIL import Image as Pillow
    from transformers.image_utils import load_image

    try:
        if isinstance(given, torch.Tensor):
            given = given.detach().cpu().numpy()
        if isinstance(given, np.ndarray):
            given = Pillow.fromarray(_as_pixels(given, number))
        if isinstance(given, PathLike):
            given = fspath(given)
        if isinstance(given, str) and not given.startswith(("http://", "https://", "data:")):
            with Pillow.open(given) as opened:
                opened.load()
                given = opened.copy()
        if isinstance(given, Pillow.Image) and given.mode[0] in "IF":
            given = Pillow.fromarray((np.asarray(given, dtype=np.float64) / 257).clip(0, 255).astype(np.uint8))
        picture: Image = load_image(given)
    except (OSError, SyntaxError, TypeError) as error:
        raise InputError(
            f"picture {number} ({described(given)}) cannot be read: {error}; "
            "pass a PIL image, a path to a whole picture file, or an array"
        ) from error
    return picture


def _as_pixels(array: Any, number: int) -> Any:
    """``[rows, columns]`` or ``[rows, columns, channels]`` bytes from an array of any usual form."""
    import numpy as np

    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[-1] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim not in (2, 3):
        raise InputError(f"picture {number} has shape {array.shape}; pass [rows, columns, 3]")
    if np.issubdtype(array.dtype, np.floating):
        array = (array * 255 if array.max(initial=0) <= 1 else array).round()
    return array.squeeze(-1).astype(np.uint8) if array.shape[-1] == 1 and array.ndim == 3 else array.astype(np.uint8)


def described(given: Any) -> str:
    """What was given, in a few words for a message."""
    return repr(given) if isinstance(given, (str, int, float)) else f"a {type(given).__name__}"
