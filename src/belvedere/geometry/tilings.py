"""What the image processors that cut a picture into tiles make of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from belvedere.geometry import budgets, canvases, resizing
from belvedere.geometry.piece import Piece, whole
from belvedere.geometry.settings import Settings
from belvedere.geometry.steps import cropped_centre, resized, squared

__all__ = ["TILINGS"]

Size = tuple[int, int]


def _next(read: Settings, size: Size) -> list[Piece]:
    """LLaVA-NeXT's: the thumbnail, then the tiles of the picture in the middle of the resolution that fits best."""
    edge = read.side("shortest_edge")
    small = read.box() if edge is None or read.side("height") else (edge, edge)
    side = read.side("height", "crop_size") or read.side("height") or read.edge("shortest_edge")
    best = canvases.largest_shown(size, read("image_grid_pinpoints"))
    canvas = whole(size).resized(resizing.ceiled(size, best)).centred(best)
    cut = [whole(size).resized(small).thumbnail(), *canvas.tiles((side, side))]
    return [cropped_centre(read, resized(read, piece)) for piece in cut]


def _onevision(read: Settings, size: Size) -> list[Piece]:
    """LLaVA-OneVision's: as LLaVA-NeXT's for a prompt's only picture; of several, each is padded to a square."""
    if read("alone"):
        return _next(read, size)
    return [cropped_centre(read, resized(read, squared(whole(size))))]


def _closest(read: Settings, size: Size) -> list[Piece]:
    """GOT-OCR 2's, which InternVL and Aya Vision use: tiles of the picture stretched to the closest grid."""
    choices = canvases.grids(read.number("max_patches"), read.number("min_patches"))
    return _stretched(read, size, canvases.closest(size, read.box(), choices))


def _cohere2(read: Settings, size: Size) -> list[Piece]:
    """Cohere 2 Vision's: tiles of the picture stretched to the grid that enlarges it least."""
    return _stretched(read, size, canvases.least_resized(size, read.box()[1], read.number("max_patches")))


def _stretched(read: Settings, size: Size, grid: Size) -> list[Piece]:
    picture = whole(size)
    if not read("crop_to_patches"):
        return [resized(read, picture)]
    return _cut(picture, read.box(), grid, read.box())


def _cut(picture: Piece, tile: Size, grid: Size, small: Size) -> list[Piece]:
    """A picture stretched to a grid, its tiles and behind them its thumbnail; or alone where the grid is one tile."""
    stretched = picture.resized((tile[0] * grid[0], tile[1] * grid[1]))
    if grid == (1, 1):
        return [stretched]
    return [*stretched.tiles(tile), picture.resized(small).thumbnail()]


def _gemma3(read: Settings, size: Size) -> list[Piece]:
    """Gemma 3's: the picture, and crops beside it where it pans and scans over one that is long."""
    picture = whole(size)
    if not read("do_pan_and_scan"):
        return [resized(read, picture)]
    crops = _scanned(read, picture)
    first = picture.thumbnail() if crops else picture
    return [piece.resized(read.box()) for piece in (first, *crops)]


def _scanned(read: Settings, picture: Piece) -> list[Piece]:
    """The crops of Gemma 3's pan and scan: side by side along the longer side, the last one what is left."""
    short, long = sorted(picture.size)
    if long / short < float(read("pan_and_scan_min_ratio_to_activate")):
        return []
    least = read.number("pan_and_scan_min_crop_size")
    count = max(2, min(long // least, math.floor(long / short + 0.5)))
    count = min(read.number("pan_and_scan_max_num_crops"), count)
    length = math.ceil(long / count)
    if min(length, short) < least:
        return []
    return picture.tiles((length, short) if picture.size[0] >= picture.size[1] else (short, length))


def _idefics2(read: Settings, size: Size) -> list[Piece]:
    """Idefics 2's: any size within two edges; four quarters ahead of the whole where it splits."""
    picture = whole(size)
    if not read("do_image_splitting"):
        return [_bounded(read, picture)]
    width, height = size[0] // 2, size[1] // 2
    across, down = ((0, width), (width, size[0] - width)), ((0, height), (height, size[1] - height))
    quarters = [
        replace(picture.window((left, top), (wide, high)).apart(), kind="tile", row=row, column=column)
        for row, (top, high) in enumerate(down)
        for column, (left, wide) in enumerate(across)
    ]
    return [_bounded(read, piece) for piece in (*quarters, picture.thumbnail())]


def _bounded(read: Settings, piece: Piece) -> Piece:
    if not read("do_resize"):
        return piece
    shortest, longest = read.side("shortest_edge"), read.side("longest_edge")
    to = resizing.below(piece.size, longest, shortest) if shortest and longest else read.box()
    return piece.resized(to)


def _idefics3(read: Settings, size: Size) -> list[Piece]:
    """Idefics 3's and SmolVLM's: stretched to whole tiles, the global one behind them."""
    picture = whole(size)
    if read("do_resize"):
        longest = read.side("longest_edge")
        # 4096 is the processor's own bound on any picture.
        to = resizing.below(resizing.evened(size, longest), 4096) if longest else read.box()
        picture = picture.resized(to)
    side = read.edge("longest_edge", "max_image_size")
    if not read("do_image_splitting"):
        return [picture.resized((side, side))]
    picture = picture.resized(resizing.multiples(picture.size, side))
    if max(picture.size) <= side:
        return [picture]
    return [*picture.tiles((side, side)), picture.resized((side, side)).thumbnail()]


def _llama4(read: Settings, size: Size) -> list[Piece]:
    """Llama 4's: tiles of a canvas whose top left corner the picture fills, the global one behind them."""
    tile, most = read.box(), read.number("max_patches")
    grid, to = canvases.upscaled(size, tile[1], most, bool(read("resize_to_max_canvas")))
    picture = whole(size).resized(to).padded((grid[0] * tile[0], grid[1] * tile[1]))
    if grid == (1, 1):
        return [picture]
    return [*picture.tiles(tile), whole(size).resized(tile).thumbnail()]


def _mllama(read: Settings, size: Size) -> list[Piece]:
    """Mllama's: tiles of a canvas whose top left corner the picture fills."""
    tile = read.box()
    grid = canvases.canvas(size, tile[1], read.number("max_image_tiles"))
    most = (grid[0] * tile[0], grid[1] * tile[1])
    limits = (min(max(size[0], tile[1]), most[0]), min(max(size[1], tile[1]), most[1]))
    picture = whole(size).resized(resizing.floored(size, limits)).padded(most)
    return [picture] if grid == (1, 1) else picture.tiles(tile)


def _lfm2(read: Settings, size: Size) -> list[Piece]:
    """LFM2-VL's: tiles of a large picture and a thumbnail of its own shape; a small one whole."""
    patch = read.number("encoder_patch_size")
    factor = patch * read.number("downsample_factor")
    least, most = (read.number(f"{which}_image_tokens") * factor**2 for which in ("min", "max"))
    small = budgets.pooled(size, factor, least, most)
    splits = bool(read("do_image_splitting"))
    tiles = (read.number("min_tiles"), read.number("max_tiles")) if splits else (1, 1)
    width, height = (max(patch, round(side / factor) * factor) for side in size)
    if tiles == (1, 1) or width * height <= most * float(read("max_pixels_tolerance")):
        return [whole(size).resized(small)]
    side = read.number("tile_size")
    grid = canvases.closest(size, (side, side), canvases.ordered(tiles[1], tiles[0]))
    cut = _cut(whole(size), (side, side), grid, small)
    return cut if read("use_thumbnail") else [piece for piece in cut if piece.kind != "thumbnail"]


#: By the class that wrote the work, without the ending of its backend.
TILINGS: Mapping[str, Callable[[Settings, Size], list[Piece]]] = {
    "Cohere2VisionImageProcessor": _cohere2,
    "Gemma3ImageProcessor": _gemma3,
    "GotOcr2ImageProcessor": _closest,
    "Idefics2ImageProcessor": _idefics2,
    "Idefics3ImageProcessor": _idefics3,
    "Lfm2VlImageProcessor": _lfm2,
    "Llama4ImageProcessor": _llama4,
    "LlavaNextImageProcessor": _next,
    "LlavaOnevisionImageProcessor": _onevision,
    "MllamaImageProcessor": _mllama,
    "SmolVLMImageProcessor": _idefics3,
}
