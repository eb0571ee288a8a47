"""The text's side of a layout: which patches each image token is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry import Cells, Region, Shown
from belvedere.geometry.cells import Kind
from belvedere.locating.shown import Seen
from belvedere.pictures import Pictures

__all__ = ["Told", "told"]


@dataclass(frozen=True)
class Told:
    """Image tokens, of an encoding or of a part of it.

    Args:
        cells: What each is, without its box.
        links: ``[pairs, 2]``, a token and a row of the tower that it is made of.
        mixed: ``[tokens]``, True for a token that is made of all patches of its piece.
        sizes: Frames, rows and columns of tokens that these reach to, by the number of the patches' grid.
    """

    cells: Cells
    links: Tensor
    mixed: Tensor
    sizes: dict[int, tuple[int, int, int]]


def told(
    seen: Seen, pictures: Pictures, numbers: list[Tensor], resampled: bool
) -> tuple[Cells, tuple[Region, ...], Tensor, Tensor]:
    """The image tokens of each picture, one after the other.

    Args:
        seen: The pieces of all pictures.
        pictures: The image tokens of each picture.
        numbers: For each piece, the tower's row at each of its patches.
        resampled: Whether every token is made of all patches of its picture or tile.

    Returns:
        What each token is, without its box; the grids that tokens stand in; ``[pairs, 2]``, a token and a row of the
        tower that it is made of; ``[tokens]``, True for those that are made of all patches of their piece.

    Raises:
        InputError: How this many tokens are made of these patches is not known.
    """
    parts = [part for image in range(pictures.count) for part in _picture(seen, pictures, numbers, resampled, image)]
    starts = accumulate((len(part.cells) for part in parts), initial=0)
    moved = [part.links + torch.tensor([start, 0]) for part, start in zip(parts, starts, strict=False)]
    sizes: dict[int, tuple[int, int, int]] = {}
    for part in parts:
        for region, (frames, rows, columns) in part.sizes.items():
            most, high, wide = sizes.get(region, (0, 0, 0))
            sizes[region] = max(most, frames), max(high, rows), max(wide, columns)
    cells = Cells.joined([part.cells for part in parts] or [Cells.blank(0, "patch", 0, 0)])
    # Grids whose tokens stand nowhere are left out, and the others numbered anew.
    kept = {region: place for place, region in enumerate(sorted(sizes))}
    renamed = torch.tensor([kept.get(region, -1) for region in range(len(seen.regions))] + [-1])
    grids = tuple(_sized(seen.regions[region], sizes[region]) for region in sorted(sizes))
    links = torch.cat([torch.empty(0, 2, dtype=torch.long), *moved])
    mixed = torch.cat([torch.zeros(0, dtype=torch.bool), *(part.mixed for part in parts)])
    return replace(cells, region=renamed[cells.region]), grids, links, mixed


def _sized(region: Region, size: tuple[int, int, int]) -> Region:
    return replace(region, frames=size[0], rows=size[1], columns=size[2])


def _picture(seen: Seen, pictures: Pictures, numbers: list[Tensor], resampled: bool, image: int) -> Iterator[Told]:
    own = [number for number, piece in enumerate(seen.pieces) if piece.image == image and piece.rows]
    if not pictures.tokens:
        return
    count = pictures.tokens[image]
    if seen.lines:
        yield from _in_lines(seen, numbers, own, image)
        return
    if not count:
        return
    if seen.scaled is not None:
        yield from _in_frames(seen, numbers, own, image, seen.scaled)
        return
    start = sum((pictures.tiles or (1,) * pictures.count)[:image])
    each = pictures.pieces[start : start + len(own)] or [count // len(own)] * len(own)
    for number, tokens in zip(own, each, strict=True):
        yield _latents(seen, number, tokens) if resampled else from_piece(seen, number, numbers[number], tokens)


def _latents(seen: Seen, number: int, count: int) -> Told:
    """A resampler's tokens, each made of all patches of a piece."""
    cells = Cells.blank(count, "latent", seen.pieces[number].image, number)
    return Told(cells, torch.empty(0, 2, dtype=torch.long), torch.ones(count, dtype=torch.bool), {})


def from_piece(seen: Seen, number: int, numbers: Tensor, count: int) -> Told:
    """The tokens of one piece, each made of a square block of its patches, in raster order; CLS first where it is kept.

    Raises:
        InputError: No side of a block gives this many tokens.
    """
    piece = seen.pieces[number]
    kept = len(piece.before) if count == numbers.numel() + len(piece.before) else 0
    frames, side = _fold(numbers.shape, count - kept, seen.side)
    if not side:
        raise InputError(
            f"how {count} image tokens are made of {' x '.join(map(str, numbers.shape))} patches is not known; "
            "the patches of this input can be placed, its tokens cannot"
        )
    rows, columns = numbers.shape[1] // side, numbers.shape[2] // side
    places = torch.cartesian_prod(*(torch.arange(size) for size in (frames, rows, columns))).view(-1, 3)
    kind: Kind = "thumbnail" if seen.regions[piece.region].part == "thumbnail" else "patch"
    top, left = piece.top // side, piece.left // side
    cells = _standing(kind, piece.image, number, piece.region, places + torch.tensor([piece.first, top, left]))
    blocks = numbers[:, : rows * side, : columns * side].unfold(1, side, side).unfold(2, side, side)
    # One row for each token; where frames are merged, theirs stand side by side.
    folds = blocks.reshape(frames, -1, rows * columns, side**2).transpose(1, 2).reshape(count - kept, -1)
    first = int(numbers.min()) - len(piece.before)
    made_of = torch.cat([torch.arange(first, first + kept), folds.flatten()])
    tokens = torch.cat([torch.arange(kept), torch.arange(kept, count).repeat_interleave(folds.shape[1])])
    return Told(
        Cells.joined([Cells.blank(kept, "cls", piece.image, number), cells]) if kept else cells,
        torch.stack([tokens, made_of], 1),
        torch.zeros(count, dtype=torch.bool),
        {piece.region: (piece.first + frames, top + rows, left + columns)},
    )


def _fold(shape: torch.Size, count: int, known: int) -> tuple[int, int]:
    """How many frames of tokens there are, and the side of the block of patches that makes one of ``count`` tokens.

    Where the side is known the frames may be merged; else there is one frame, and the side is 0 where none gives this
    many.
    """
    frames, rows, columns = shape
    if known:
        each = (rows // known) * (columns // known)
        return (count // each, known) if each and count in (each, frames * each) else (1, 0)
    exact = isqrt(rows * columns // count) if count > 0 else 0
    sides = [exact, *range(2, max(rows, columns) + 1)] if exact else []
    return 1, next((side for side in sides if (rows // side) * (columns // side) == count), 0)


def _standing(kind: Kind, image: int, piece: Any, region: int, places: Tensor) -> Cells:
    """Tokens at places ``[n, 3]`` (frame, row, column) of a grid, without their boxes."""
    blank = Cells.blank(len(places), kind, image, 0)
    frame, row, column = places.unbind(-1)
    return replace(
        blank,
        piece=torch.as_tensor(piece).expand(len(places)),
        region=torch.full_like(frame, region),
        frame=frame,
        row=row,
        column=column,
    )


def _in_lines(seen: Seen, numbers: list[Tensor], own: list[int], image: int) -> Iterator[Told]:
    """The whole picture as one piece, then its tiles stitched, the padding cut off, and a newline after each line."""
    lines = seen.lines[image]
    first = own[0]
    yield from_piece(seen, first, numbers[first], numbers[first].numel())
    if lines is None:
        yield _newline(image)
        return
    pieces = [seen.pieces[number] for number in own[1:]]
    high, wide = (
        max(end) for end in zip(*((one.top + one.rows, one.left + one.columns) for one in pieces), strict=True)
    )
    whole, of_piece = torch.zeros(high, wide, dtype=torch.long), torch.zeros(high, wide, dtype=torch.long)
    for number, one in zip(own[1:], pieces, strict=True):
        spot = slice(one.top, one.top + one.rows), slice(one.left, one.left + one.columns)
        whole[spot], of_piece[spot] = numbers[number][0], number
    window = slice(lines.top, lines.top + lines.rows), slice(lines.left, lines.left + lines.columns)
    yield _lines(whole[window], of_piece[window], image, pieces[0].region, (lines.lines, lines.length))


def _in_frames(seen: Seen, numbers: list[Tensor], own: list[int], image: int, size: tuple[int, int]) -> Iterator[Told]:
    """Each frame of a video scaled to a size, and one newline behind the last."""
    for number in own:
        yield _frame(numbers[number][0], number, seen.pieces[number], size)
    yield _newline(image)


def _newline(image: int) -> Told:
    return Told(
        Cells.blank(1, "newline", image, -1), torch.empty(0, 2, dtype=torch.long), torch.zeros(1, dtype=torch.bool), {}
    )


def _frame(whole: Tensor, number: int, piece: Shown, size: tuple[int, int]) -> Told:
    """A frame of a video, as tokens of its own."""
    links, places, _ = _scaled(whole, torch.full_like(whole, number), size)
    cells = _standing("patch", piece.image, number, piece.region, places + torch.tensor([piece.first, 0, 0]))
    return Told(cells, links, _unmixed(cells), {piece.region: (piece.first + 1, *size)})


def _lines(whole: Tensor, of_piece: Tensor, image: int, region: int, size: tuple[int, int]) -> Told:
    """Lines of tokens with a newline behind each."""
    links, places, pieces = _scaled(whole, of_piece, size)
    length = size[1]
    # Every newline before a token moves it on by one.
    number = torch.arange(len(places)) + places[:, 1]
    ends = torch.arange(1, size[0] + 1) * (length + 1) - 1
    standing = _standing("patch", image, pieces, region, places)
    order = torch.cat([number, ends]).argsort()
    cells = Cells.joined([standing, Cells.blank(size[0], "newline", image, -1)]).taken(order)
    moved = torch.stack([number[links[:, 0]], links[:, 1]], 1)
    return Told(cells, moved, _unmixed(cells), {region: (1, *size)})


def _scaled(whole: Tensor, of_piece: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens over a grid of patches, of its size or resampled to fewer by bilinear interpolation.

    Returns:
        ``[pairs, 2]``, a token and a row of the tower; ``[tokens, 3]``, each token's frame, row and column; and the
        piece that it is of, -1 where it may be of several.
    """
    down, across = _taps(whole.shape[0], size[0]), _taps(whole.shape[1], size[1])
    number = torch.arange(size[0] * size[1]).view(size)
    pairs = torch.cat(
        [
            torch.stack([number[up[:, None] & left], whole[row][:, column][up[:, None] & left]], 1)
            for row, up in down
            for column, left in across
        ]
    )
    places = torch.cartesian_prod(torch.zeros(1, dtype=torch.long), *map(torch.arange, size)).view(-1, 3)
    pieces = of_piece.flatten() if tuple(whole.shape) == size else torch.full((len(places),), -1)
    return pairs[pairs[:, 0].argsort(stable=True)], places, pieces


def _unmixed(cells: Cells) -> Tensor:
    return torch.zeros(len(cells), dtype=torch.bool)


def _taps(length: int, wanted: int) -> list[tuple[Tensor, Tensor]]:
    """The two patches along an axis that bilinear interpolation takes for each token, and whether it takes them."""
    centre = ((torch.arange(wanted, dtype=torch.float64) + 0.5) * length / wanted - 0.5).clamp(min=0)
    low = centre.floor().long()
    high = (low + 1).clamp(max=length - 1)
    return [(low, torch.ones(wanted, dtype=torch.bool)), (high, (high > low) & (centre > low))]
