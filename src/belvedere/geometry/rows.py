"""The tables of a layout, from the pieces of each picture: what stands where, row by row and token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from belvedere.geometry.cells import KINDS, Cells, Kind
from belvedere.geometry.grid import cell_boxes
from belvedere.geometry.view import View

__all__ = ["Shown", "tower_rows"]

#: A picture's patches in a tower's order: for frames, rows and columns, each row's number in raster order.
Order = Callable[[int, int, int], Tensor]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One piece of a picture as a tower takes it: the whole of it, a tile, or its thumbnail.

    Args:
        image: The picture's number.
        region: The number of the grid that its patches stand in; -1 where it only pads a stack of tiles.
        frames: How many frames.
        first: The number of the first of them, where a tower takes a video's frames apart.
        rows: Patches from top to bottom that show something.
        columns: Patches from left to right.
        top: The row of its grid at which it begins; for a tile, those above it come first.
        left: The column at which it begins.
        slots: Rows and columns of patches with the padding to the right and below that the tower takes along.
        before: The tower's rows ahead of its patches: CLS and registers.
        after: What stands behind them, such as a CLS, one kind for each row.
        length: How many rows it has in the tower, all in all.
        cut: Whether it comes cut into patches beforehand, with the padding behind them.
        side: The side of a patch, in the tower's pixels.
        view: How its pixels lie in the original picture; ``None`` where that is not known.
    """

    image: int
    region: int = 0
    frames: int = 1
    first: int = 0
    rows: int
    columns: int
    top: int = 0
    left: int = 0
    slots: tuple[int, int]
    before: tuple[Kind, ...] = ()
    after: tuple[Kind, ...] = ()
    length: int
    side: int
    cut: bool = False
    view: View | None = None

    @property
    def patches(self) -> int:
        """How many patches there are, those over padding among them."""
        return self.frames * self.slots[0] * self.slots[1]


def tower_rows(pieces: Sequence[Shown], order: Order) -> tuple[Cells, Tensor, list[Tensor]]:
    """The table of a tower's rows.

    Args:
        pieces: What the tower takes, in its order.
        order: In which order it keeps the patches of a piece.

    Returns:
        The table; ``[n]``, True for the rows that are patches or padding among them, and no CLS; and for each piece
        ``[frames, rows, columns]``, the number of the tower's row at each of its patches, padding to the right and
        below among them.
    """
    tables, embedded, numbers, start = [], [], [], 0
    for number, piece in enumerate(pieces):
        way = order(piece.frames, *piece.slots)
        patches = _patches(piece, number).taken(way)
        padding = piece.length - len(piece.before) - len(way) - len(piece.after)
        around = [(kind, 1) for kind in piece.before], [*((kind, 1) for kind in piece.after), ("padding", padding)]
        ahead, behind = (
            [Cells.blank(many, kind, piece.image, number) for kind, many in side if many] for side in around
        )
        tables += [*ahead, patches, *behind]
        first = start + len(piece.before)
        grid = (first + way.argsort()).view(piece.frames, *piece.slots)
        numbers.append(grid)
        inside = torch.zeros(piece.length, dtype=torch.bool)
        inside[len(piece.before) : piece.length if piece.cut else len(piece.before) + len(way)] = True
        embedded.append(inside)
        start += piece.length
    return Cells.joined(tables), torch.cat(embedded), numbers


def _patches(piece: Shown, number: int) -> Cells:
    """A piece's patches in raster order; those beyond its rows and columns are padding."""
    high, wide = piece.slots
    places = torch.cartesian_prod(torch.arange(piece.frames), torch.arange(high), torch.arange(wide)).view(-1, 3)
    frame, row, column = places.unbind(-1)
    inside = (row < piece.rows) & (column < piece.columns) & (piece.region >= 0)
    boxes = cell_boxes(high, wide, (wide * piece.side, high * piece.side)).repeat(piece.frames, 1)
    unseen = torch.full_like(boxes, torch.nan)
    source = unseen if piece.view is None else torch.where(inside[:, None], piece.view.boxes(boxes), unseen)
    return Cells(
        kind=torch.where(inside, KINDS.index("patch"), KINDS.index("padding")),
        image=torch.full_like(frame, piece.image),
        piece=torch.full_like(frame, number),
        region=torch.where(inside, piece.region, -1),
        frame=torch.where(inside, frame + piece.first, -1),
        row=torch.where(inside, row + piece.top, -1),
        column=torch.where(inside, column + piece.left, -1),
        box=boxes,
        source_box=source,
    )
