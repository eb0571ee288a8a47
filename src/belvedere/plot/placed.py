"""What a picture of a layout says, before any of it is drawn: its panels, and in them boxes with numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry import KINDS, Cells, PatchLayout
from belvedere.geometry.cells import Box

__all__ = ["Mark", "Of", "Panel", "panels", "runs"]

Of = Literal["patches", "tokens"]
#: What stands in no grid, in the words of a note.
OUTSIDE = {"cls": "CLS", "register": "registers", "latent": "latents", "padding": "padding", "newline": "newlines"}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A box with what is written into it.

    Args:
        label: The number of a row or a token, or of the first and last of several that share the box.
        box: In the original picture's pixels.
        row: Its place in its grid, from the top, by which numbers are left out where there are too many.
        column: Its place from the left.
    """

    label: str
    box: Box
    row: int = 0
    column: int = 0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One grid of a picture: the picture itself or its thumbnail, by rows of the tower or by image tokens.

    Args:
        of: What its numbers are.
        title: What it shows.
        notes: What belongs to it and stands in no box.
        patches: ``[n, 4]``, the boxes of the patches in the tower's order.
        follows: ``[n]``, True where a patch is the row behind the one before.
        marks: The boxes with numbers.
        newlines: A newline token's number, and the box of the token that it stands behind.
    """

    of: Of
    title: str
    notes: tuple[str, ...]
    patches: Tensor
    follows: Tensor
    marks: tuple[Mark, ...]
    newlines: tuple[Mark, ...] = ()

    @property
    def seen(self) -> Box:
        """The box around all boxes with numbers."""
        return _hull(torch.tensor([mark.box for mark in self.marks], dtype=torch.float64))

    @property
    def around(self) -> Box:
        """The box around all patches."""
        return _hull(self.patches)


def panels(layout: PatchLayout, picture: int, of: Of, frame: int) -> list[Panel]:
    """The panels of one picture, its own grid first and the thumbnail behind it.

    Args:
        layout: The layout.
        picture: The picture's number, from 0.
        of: ``"patches"`` for the tower's rows, ``"tokens"`` for the image tokens.
        frame: The frame of a video.

    Raises:
        InputError: Where patches lie in the original picture is not known, or there are no image tokens.
    """
    if layout.unsourced is not None:
        raise InputError(f"where a patch lies in the original picture is not known: {layout.unsourced}")
    own = [number for number, region in enumerate(layout.regions) if region.image == picture]
    own.sort(key=lambda number: layout.regions[number].part == "thumbnail")
    if of == "patches":
        return [_of_patches(layout, number, frame) for number in own]
    if layout.untold is not None or not len(layout.tokens_of(picture)):
        raise InputError(
            f"picture {picture} has no image tokens: nothing is written over a placeholder; pass of='patches'"
        )
    shown = [_of_tokens(layout, number, frame) for number in own]
    return [panel for panel in shown if panel is not None]


def _of_patches(layout: PatchLayout, region: int, frame: int) -> Panel:
    cells, grid = layout.patches, layout.regions[region]
    numbers = _patches(layout, region, frame)
    outside = layout.rows_of(grid.image)
    outside = outside[cells.region[outside].eq(-1)] if grid.part != "thumbnail" else outside[:0]
    return Panel(
        of="patches",
        title=f"{_name(layout, region, frame)}: {grid.rows} x {grid.columns} patches, "
        f"tower rows {runs(numbers.tolist(), most=2)}",
        notes=tuple(_notes("row", outside.tolist(), cells.kind.tolist())),
        patches=cells.source_box[numbers],
        follows=torch.cat([torch.zeros(1, dtype=torch.bool), numbers.diff().eq(1)]),
        marks=tuple(_marks(cells, numbers)),
    )


def _of_tokens(layout: PatchLayout, region: int, frame: int) -> Panel | None:
    cells, grid = layout.tokens, layout.regions[region]
    patches = _patches(layout, region, frame)
    owned = _tokens(layout, region, frame, patches)
    if not len(owned):
        return None
    line_end = cells.of_kind("newline")[owned]
    alone = owned[~line_end & ~layout.mixed[owned]]
    marks = _marks(cells, alone)
    # A newline stands behind the token that comes before it.
    behind = (torch.searchsorted(alone, owned[line_end]) - 1).tolist()
    newlines = [
        Mark(label=str(number), box=marks[before].box)
        for number, before in zip(owned[line_end].tolist(), behind, strict=True)
    ]
    mixed = owned[layout.mixed[owned]].tolist()
    for _, same in groupby(mixed, key=lambda number: int(cells.piece[number])):
        together = list(same)
        marks.append(Mark(label=runs(together), box=_box(cells.source_box[together[0]])))
    outside = _bare(layout, grid.image) if grid.part == "picture" else []
    notes = [*_made_of(layout, owned), *_notes("token", outside, cells.kind.tolist())]
    return Panel(
        of="tokens",
        title=f"{_name(layout, region, frame)}: {_count(len(owned) - len(newlines), 'image token')}",
        notes=tuple(notes + ["\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}: a newline token"] * bool(newlines)),
        patches=layout.patches.source_box[patches],
        follows=torch.zeros(len(patches), dtype=torch.bool),
        marks=tuple(marks),
        newlines=tuple(newlines),
    )


def _patches(layout: PatchLayout, region: int, frame: int) -> Tensor:
    cells = layout.patches
    return (cells.region.eq(region) & cells.frame.eq(frame)).nonzero().flatten()


def _tokens(layout: PatchLayout, region: int, frame: int, patches: Tensor) -> Tensor:
    """The image tokens of a grid of patches: those that stand in its like, are made of it, or end a line of it."""
    cells, grid = layout.tokens, layout.regions[region]
    stands = torch.zeros(len(cells), dtype=torch.bool)
    for number, one in enumerate(layout.token_regions):
        if (one.image, one.part) == (grid.image, grid.part):
            # Where frames are merged, one frame of tokens stands for all.
            stands |= cells.region.eq(number) & cells.frame.eq(min(frame, one.frames - 1))
    mixed = layout.mixed & torch.isin(cells.piece, layout.patches.piece[patches])
    lines = cells.of_kind("newline") & cells.image.eq(grid.image) & bool(grid.part == "picture")
    # A newline behind nothing but a thumbnail ends no line of the picture.
    return (stands | mixed | (lines & stands.cumsum(0).gt(0))).nonzero().flatten()


def _bare(layout: PatchLayout, picture: int) -> list[int]:
    """The image tokens of a picture that show no pixels and end no line."""
    cells = layout.tokens
    shown = cells.image.eq(picture) & cells.of_kind("patch")
    drawn = cells.of_kind("patch", "thumbnail", "latent") | (cells.of_kind("newline") & shown.cumsum(0).gt(0))
    own = layout.tokens_of(picture)
    return [int(number) for number in own[~drawn[own]]]


def _marks(cells: Cells, numbers: Tensor) -> list[Mark]:
    """The boxes of some rows or tokens, each with its number and its place in its grid."""
    columns = (held[numbers].tolist() for held in (cells.source_box, cells.row, cells.column))
    return [
        Mark(label=str(number), box=(left, top, right, bottom), row=row, column=column)
        for number, (left, top, right, bottom), row, column in zip(numbers.tolist(), *columns, strict=True)
    ]


def _made_of(layout: PatchLayout, owned: Tensor) -> Iterator[str]:
    """How many patches make a token."""
    mixed = owned[layout.mixed[owned]]
    if len(mixed):
        each = len(layout.patches_of(int(mixed[0])))
        yield f"each of {_count(len(mixed), 'token')} is made of all {each} patches of its box"
    plain = owned[~layout.mixed[owned] & layout.tokens.of_kind("patch", "thumbnail")[owned]].tolist()
    if plain:
        counts = torch.bincount(layout.links[:, 0], minlength=len(layout.tokens))[plain]
        least, most = int(counts.min()), int(counts.max())
        yield f"a token is made of {_count(most, 'patch')}" + (f", or of {least}" if least != most else "")


def _notes(what: str, numbers: list[int], kinds: list[int]) -> Iterator[str]:
    """The rows or tokens that stand in no box, by kind."""
    for kind in dict.fromkeys(kinds[number] for number in numbers):
        own = [number for number in numbers if kinds[number] == kind]
        yield f"{OUTSIDE[KINDS[kind]]}: {what}{'s' * (len(own) > 1)} {runs(own, most=4)}"


def _name(layout: PatchLayout, region: int, frame: int) -> str:
    grid = layout.regions[region]
    number = f" {grid.image}" if layout.images > 1 else ""
    return f"{grid.part}{number}" + (f", frame {frame}" if grid.frames > 1 else "")


def _count(number: int, what: str) -> str:
    plural = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number} {what}{plural}"


def _hull(boxes: Tensor) -> Box:
    return _box(torch.cat([boxes[:, :2].amin(0), boxes[:, 2:].amax(0)]))


def _box(held: Tensor) -> Box:
    left, top, right, bottom = held.tolist()
    return left, top, right, bottom


def runs(numbers: Iterable[int], most: int | None = None) -> str:
    """Whole numbers in words, neighbours folded: ``0-3, 7``.

    Args:
        numbers: In rising order.
        most: How many runs are named before the rest is left to dots.
    """
    folded = [
        [number for _, number in same] for _, same in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ]
    named = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in folded]
    return ", ".join(named if most is None or len(named) <= most else [*named[: most - 1], "...", named[-1]])
