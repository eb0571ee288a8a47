"""The tower's side of a layout: which pieces of which pictures an encoding holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from typing import Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry import Piece, Region, Shown, View, merge_block_order, pieces, window_order
from belvedere.geometry.cells import Part
from belvedere.pictures import Pictures

__all__ = ["Seen", "order_of", "seen"]

#: The grids of one picture, in the order in which a layout lists them.
ORDER: tuple[Part, ...] = ("picture", "tile", "thumbnail")
NO_SIZES = "an encoding does not say how large its pictures were; pass `sizes=[(width, height)]`"
NO_PROCESSOR = "the model has no image processor that says how a picture becomes pixels; load it with `processor=`"


@dataclass(frozen=True)
class Stand:
    """Where a piece stands: in which grid, at which place among its tiles or frames, and how in the picture."""

    part: Part
    row: int = 0
    column: int = 0
    view: View | None = None
    frame: int = 0


@dataclass(frozen=True)
class Seen:
    """What a tower takes of an encoding.

    Args:
        pieces: The pictures, tiles and thumbnails, in the tower's order.
        regions: The grids that their patches stand in.
        sizes: Width and height of each original picture; empty where they are not known.
        unsourced: Why the boxes in the original pictures are not known.
        lines: The `belvedere.families.tiling.Stitched` of each picture, where the wrapper lays its tokens out in lines.
        side: The side of the block of patches that makes an image token, where the tower says it; else 0.
        scaled: How many rows and columns of tokens each frame of a video is scaled to, where it is.
    """

    pieces: list[Shown]
    regions: list[Region]
    sizes: tuple[tuple[int, int], ...]
    unsourced: str | None
    lines: list[Any]
    side: int
    scaled: tuple[int, int] | None = None


def seen(
    vision: Any,
    encoding: Mapping[str, Any],
    pictures: Pictures,
    sizes: Sequence[tuple[int, int]] | None,
    modality: str = "image",
) -> Seen:
    """The pieces of each picture of an encoding.

    Raises:
        InputError: There are other pictures than sizes, or pictures of these sizes become something else.
    """
    facts = vision.root.family.facts
    if facts.lines is not None and "image_sizes" in encoding:
        # These wrappers need the original height and width themselves.
        known = [(int(width), int(height)) for height, width in encoding["image_sizes"]]
        if sizes is not None and _checked(sizes, pictures.count, modality) != known:
            raise InputError(f"the encoding says that its pictures are {known} pixels wide and high; leave out `sizes`")
        sizes = known
    sizes = None if sizes is None else _checked(sizes, pictures.count, modality)
    lines, ratios = _lines(vision, encoding), _ratios(vision, encoding)
    made, unsourced = _made(vision, pictures, sizes, lines, modality)
    shown: list[Shown] = []
    regions: list[Region] = []
    for image, own in enumerate(_plain(vision, encoding, pictures)):
        if modality == "video" and pictures.tiles:
            view = made[image][0].view if made else None
            given = [Stand("picture", frame=frame, view=view) for frame in range(len(own))]
        elif made:
            given = _stitched(made[image], own)
        else:
            given = _unstitched(own, lines[image] if lines else None)
        if ratios and [(stand.row, stand.column) for stand in given] != ratios[image]:
            if made:
                raise InputError(f"picture {image} is of other proportions than its size; pass the encoded one's")
            given = [Stand("picture", row, column) for row, column in ratios[image]]
        placed, grids = _placed(own, given, len(regions))
        shown += placed
        regions += grids
    side = vision.spatial_merge_size if encoding.get("image_grid_thw") is not None else 0
    scaled = None
    if modality == "video" and facts.video_scaled is not None:
        scaled = facts.video_scaled(shown[0].rows, shown[0].columns)
    return Seen(shown, regions, tuple(sizes or ()), unsourced, lines, side, scaled)


def _checked(sizes: Any, count: int, modality: str) -> list[tuple[int, int]]:
    """Widths and heights as pairs of whole numbers.

    Raises:
        InputError: There is not one for each picture, or one is no size.
    """
    pairs = [[int(side) for side in torch.as_tensor(size).flatten()] for size in sizes]
    wrong = [pair for pair in pairs if len(pair) != 2 or min(pair) < 1]
    if wrong:
        raise InputError(f"{tuple(wrong[0])} is no size; pass (width, height) in pixels for each {modality}")
    if len(pairs) != count:
        what = "picture" if modality == "image" else modality
        raise InputError(f"{len(pairs)} sizes were passed for {count} {what}{'s' * (count != 1)}; pass one for each")
    return [(width, height) for width, height in pairs]


def order_of(vision: Any, name: str | None = None) -> Callable[[int, int, int], Tensor]:
    """The order in which a tower keeps a piece's patches, as `belvedere.geometry.tower_rows` takes it.

    Args:
        vision: The tower's envoy.
        name: One of `belvedere.families.facts.Rows.order`; that of the tower's blocks by default.
    """
    rows = vision.root.family.rows
    merge = vision.spatial_merge_size if rows.packed else 1

    def raster(frames: int, high: int, wide: int) -> Tensor:
        return torch.arange(frames * high * wide)

    def blocks(frames: int, high: int, wide: int) -> Tensor:
        return _framewise(merge_block_order(high, wide, merge), frames)

    def windows(frames: int, high: int, wide: int) -> Tensor:
        return _framewise(window_order(high, wide, merge, vision.window_size // vision.patch_size), frames)

    return {"raster": raster, "merge blocks": blocks, "windows": windows}[name or rows.order]


def _framewise(order: Tensor, frames: int) -> Tensor:
    return (order + torch.arange(frames)[:, None] * len(order)).flatten()


def _made(
    vision: Any, pictures: Pictures, sizes: Sequence[tuple[int, int]] | None, lines: list[Any], modality: str
) -> tuple[list[list[Piece]], str | None]:
    """What the processor makes of each picture; none, and why, where that is not known."""
    processor = vision.root.processor
    if sizes is None or processor is None:
        return [], NO_SIZES if sizes is None else NO_PROCESSOR
    cut = [own is not None for own in lines] or [True] * len(sizes)
    try:
        if modality == "video":
            shown = zip(sizes, pictures.grids, strict=True)
            return [_framed(processor, size, grid, vision.patch_size) for size, grid in shown], None
        return [pieces(processor, size, alone=alone) for size, alone in zip(sizes, cut, strict=True)], None
    except InputError as error:
        return [], str(error)


def _framed(processor: Any, size: tuple[int, int], grid: tuple[int, int, int], side: int) -> list[Piece]:
    """What becomes of each frame of a video, by as many frames as make its grid; its last patch may lack some."""
    temporal = int(getattr(processor.video_processor, "temporal_patch_size", 1))
    made: list[Piece] = []
    for frames in range(grid[0] * temporal, max((grid[0] - 1) * temporal, temporal - 1), -1):
        made = pieces(processor, size, frames=frames)
        if [_patches(one, side)[0] for one in made] == [(grid[2], grid[1])]:
            break
    return made


def _stitched(made: list[Piece], own: list[Shown]) -> list[Stand]:
    """How the pieces of a picture lie, as the processor makes them.

    Raises:
        InputError: The processor makes other pieces of a picture of this size.
    """
    real = [(piece.columns, piece.rows) for piece in own if piece.rows]
    given = [_patches(one, own[0].side) for one in made]
    if len(given) != len(real) or not all(_any(own, may) for own, may in zip(real, given, strict=True)):
        raise InputError(
            f"a picture of this size becomes {[may[0] for may in given]} patches across and down by this model's "
            f"processor, and the encoding has {real}; pass the size of the encoded picture"
        )
    return [Stand("thumbnail" if one.kind == "thumbnail" else "picture", one.row, one.column, one.view) for one in made]


def _patches(piece: Piece, side: int) -> list[tuple[int, int]]:
    """The columns and rows of whole patches of a piece; of those that show some of the picture, and nothing else.

    Where pictures are padded to the largest, the encoding's mask tells how far each goes: one of the last two, unless
    the largest itself has no room for the last patch.
    """
    width, height = (length // side for length in piece.size)
    right, bottom = piece.visible[2:]
    return [(width, height), (ceil(right / side), ceil(bottom / side)), (int(right // side), int(bottom // side))]


def _any(own: tuple[int, int], several: list[tuple[int, int]]) -> bool:
    """Whether each number is one of those that it may be."""
    return all(count in may for count, may in zip(own, zip(*several, strict=True), strict=True))


def _plain(vision: Any, encoding: Mapping[str, Any], pictures: Pictures) -> list[list[Shown]]:
    """The pieces of each picture by the encoding alone: their grids, without their place in the picture."""
    tiles = pictures.tiles or (1,) * pictures.count
    starts = list(accumulate(tiles, initial=0))
    real, shapes = _real(vision, encoding), encoding.get("spatial_shapes")
    shown = []
    for image, (count, rows, columns) in enumerate(pictures.grids):
        frames = 1 if pictures.tiles else count
        own = []
        for tile in range(starts[image], starts[image + 1]):
            slots = (rows, columns) if shapes is None else (int(shapes[tile][0]), int(shapes[tile][1]))
            own.append(_piece(vision, encoding, image, frames, slots, slots if real is None else real[tile]))
        shown.append(own)
    return shown


def _piece(
    vision: Any, encoding: Mapping[str, Any], image: int, frames: int, slots: tuple[int, int], grid: tuple[int, int]
) -> Shown:
    rows, patches = vision.root.family.rows, frames * slots[0] * slots[1]
    before, after = rows.around(patches)
    # Pictures that come cut into patches are padded to one number of them.
    padded = encoding.get("spatial_shapes") is not None or encoding.get("image_position_ids") is not None
    length = int(encoding["pixel_values"].shape[1]) if padded else 0
    return Shown(
        image=image,
        frames=frames,
        rows=grid[0],
        columns=grid[1],
        slots=slots,
        before=("cls",) * before,
        after=("cls",) * rows.after,
        length=max(before + patches + after, length),
        cut=padded,
        side=vision.patch_size,
    )


def _real(vision: Any, encoding: Mapping[str, Any]) -> list[tuple[int, int]] | None:
    """The rows and columns of patches that show something in each picture or tile, where the encoding has a mask."""
    mask = encoding.get("aspect_ratio_mask")
    if mask is not None:
        high, wide = (side // vision.patch_size for side in encoding["pixel_values"].shape[-2:])
        return [(high, wide) if shown else (0, 0) for shown in torch.as_tensor(mask).flatten().tolist()]
    mask = encoding.get("pixel_attention_mask")
    if mask is None or encoding.get("spatial_shapes") is not None:
        return None
    side = vision.patch_size
    flat = torch.as_tensor(mask).flatten(0, -3).bool()
    pixels = flat.unfold(1, side, side).unfold(2, side, side).flatten(3)
    counted = pixels.all(-1) if vision.root.family.rows.whole else pixels.any(-1)
    tiles = zip(counted, flat.flatten(1).any(1), strict=True)
    return [(int(one.any(1).sum()), int(one.any(0).sum())) for one, shows in tiles if bool(shows)]


def _unstitched(own: list[Shown], lines: Any) -> list[Stand]:
    """How the pieces of a picture lie, where no processor says it: by the wrapper's own rule, if it has one."""
    if len(own) == 1:
        return [Stand("picture")]
    if lines is None:
        return [Stand("tile")] * len(own)
    high, wide = lines.tiles
    return [Stand("thumbnail"), *(Stand("picture", row, column) for row in range(high) for column in range(wide))]


def _lines(vision: Any, encoding: Mapping[str, Any]) -> list[Any]:
    """The `belvedere.families.tiling.Stitched` of each picture, where the wrapper lays its tokens out in lines."""
    facts = vision.root.family.facts
    if facts.lines is None or encoding.get("image_sizes") is None:
        return []
    rows, columns = (side // vision.patch_size for side in encoding["pixel_values"].shape[-2:])
    return list(facts.lines(vision.root.source_config, encoding, rows, columns))


def _ratios(vision: Any, encoding: Mapping[str, Any]) -> list[list[tuple[int, int]]]:
    """The row and column of each tile of each picture, where the encoding says what proportions they make."""
    if encoding.get("aspect_ratio_ids") is None:
        return []
    shapes = vision.config.supported_aspect_ratios
    chosen = [
        shapes[number - 1] for number in torch.as_tensor(encoding["aspect_ratio_ids"]).flatten().tolist() if number
    ]
    return [[(row, column) for row in range(high) for column in range(wide)] for high, wide in chosen]


def _key(number: int, stand: Stand) -> tuple[Part, int]:
    """Which grid of its picture a piece stands in; a tile of unknown place has one of its own."""
    return stand.part, number if stand.part == "tile" else 0


def _placed(own: list[Shown], stands: list[Stand], first: int) -> tuple[list[Shown], list[Region]]:
    """A picture's pieces in their grids, whose numbers begin at ``first``."""
    real = [number for number, piece in enumerate(own) if piece.rows]
    tiled = [(stands[number], own[number]) for number in real if stands[number].part == "picture"]
    downs = _starts([(stand.row, piece.rows) for stand, piece in tiled])
    across = _starts([(stand.column, piece.columns) for stand, piece in tiled])
    if downs is None or across is None:
        # Tiles of unequal sizes make no one grid.
        stands = [replace(stand, part="tile") if stand.part == "picture" else stand for stand in stands]
        downs = across = {}
    keys = {_key(number, stands[number]) for number in real}
    grids = {key: [0, 0] for key in sorted(keys, key=lambda key: (ORDER.index(key[0]), key[1]))}
    placed = []
    for number, piece in enumerate(own):
        if number not in real:
            placed.append(replace(piece, region=-1))
            continue
        stand, key = stands[number], _key(number, stands[number])
        top, left = (downs[stand.row], across[stand.column]) if stand.part == "picture" else (0, 0)
        grids[key] = [max(grids[key][0], top + piece.rows), max(grids[key][1], left + piece.columns)]
        region = first + list(grids).index(key)
        placed.append(replace(piece, region=region, first=stand.frame, top=top, left=left, view=stand.view))
    frames, image = max(piece.first + piece.frames for piece in placed), own[0].image
    made = [
        Region(image=image, part=key[0], frames=frames, rows=size[0], columns=size[1]) for key, size in grids.items()
    ]
    return placed, made


def _starts(tiles: list[tuple[int, int]]) -> dict[int, int] | None:
    """Where each row (or column) of tiles begins, from each tile's number and length; ``None`` where lengths differ."""
    lengths = dict(tiles)
    if any(lengths[number] != length for number, length in tiles):
        return None
    order = sorted(lengths)
    return dict(zip(order, accumulate((lengths[number] for number in order), initial=0), strict=False))
