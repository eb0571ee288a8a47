"""What each row of a tower, and each image token of a prompt, is: a table on the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal, overload

import torch
from torch import Tensor

__all__ = ["KINDS", "Box", "Cell", "Cells", "Kind", "Part", "Region"]

Kind = Literal["patch", "thumbnail", "cls", "register", "latent", "padding", "newline"]
Part = Literal["picture", "thumbnail", "tile"]
Box = tuple[float, float, float, float]

#: What a row or a token can be; a table keeps the place in this list. The first two stand in a grid.
KINDS: tuple[Kind, ...] = ("patch", "thumbnail", "cls", "register", "latent", "padding", "newline")


@dataclass(frozen=True, kw_only=True)
class Region:
    """A grid that rows or tokens stand in: a picture, the thumbnail beside its tiles, or a tile of unknown place.

    Args:
        image: The picture's number.
        part: What of the picture it shows.
        frames: How many frames; 1 for a picture.
        rows: Cells from top to bottom.
        columns: Cells from left to right.
    """

    image: int
    part: Part = "picture"
    frames: int = 1
    rows: int
    columns: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Frames, rows and columns."""
        return self.frames, self.rows, self.columns

    def __str__(self) -> str:
        frames = f"{self.frames} x " if self.frames > 1 else ""
        return f"{self.part} {self.image}: {frames}{self.rows} x {self.columns}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row of a tower, or one image token.

    Args:
        number: Its place in the table.
        kind: What it is.
        image: The picture's number; -1 for what is of no picture.
        region: The number of the grid that it stands in; -1 for none.
        frame: The frame, where the cell stands in a grid; else -1.
        row: Its row, from the top, in its region's grid; else -1.
        column: Its column, from the left; else -1.
        box: ``(left, top, right, bottom)`` in the pixels that the tower saw of this picture or tile; ``None`` for what
            shows no pixels.
        source_box: The same in the pixels of the original picture; ``None`` where that is not known.
    """

    number: int
    kind: Kind
    image: int
    region: int
    frame: int
    row: int
    column: int
    box: Box | None
    source_box: Box | None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Cells:
    """A table of rows or tokens, in their own order; every column is a tensor on the host.

    Args:
        kind: ``[n]``, the place in `KINDS`.
        image: ``[n]``, the picture's number; -1 for padding of no picture.
        piece: ``[n]``, the number of the tile, thumbnail or whole picture that the tower takes at once; -1 where a cell
            is of several.
        region: ``[n]``, the number of the grid that the cell stands in; -1 for none.
        frame: ``[n]``, -1 outside of a grid; so are ``row`` and ``column``.
        row: ``[n]``.
        column: ``[n]``.
        box: ``[n, 4]`` in the pixels that the tower saw of the piece; NaN for what shows no pixels.
        source_box: ``[n, 4]`` in the original picture's pixels; NaN where that is not known. A box over pixels that the
            processor added lies outside of the picture.
    """

    kind: Tensor
    image: Tensor
    piece: Tensor
    region: Tensor
    frame: Tensor
    row: Tensor
    column: Tensor
    box: Tensor
    source_box: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        """Several tables, one after the other."""
        return cls(**{one.name: torch.cat([getattr(part, one.name) for part in parts]) for one in fields(cls)})

    @classmethod
    def blank(cls, count: int, kind: Kind, image: int, piece: int) -> Cells:
        """Cells of one kind that stand in no grid."""
        nowhere, unseen = torch.full((count,), -1), torch.full((count, 4), torch.nan, dtype=torch.float64)
        places = dict.fromkeys(("region", "frame", "row", "column"), nowhere)
        same = {"kind": KINDS.index(kind), "image": image, "piece": piece}
        numbers = {name: torch.full((count,), held) for name, held in same.items()}
        return cls(**numbers, **places, box=unseen, source_box=unseen)

    def taken(self, index: Tensor) -> Cells:
        """Some of the cells, in the order of the index."""
        return Cells(**{one.name: getattr(self, one.name)[index] for one in fields(self)})

    def of_kind(self, *kinds: Kind) -> Tensor:
        """``[n]``, True where a cell is of one of these kinds."""
        return torch.isin(self.kind, torch.tensor([KINDS.index(kind) for kind in kinds]))

    @property
    def kinds(self) -> list[Kind]:
        """Each cell's kind in words."""
        return [KINDS[number] for number in self.kind.tolist()]

    def __len__(self) -> int:
        return len(self.kind)

    def __repr__(self) -> str:
        counts = Counter(self.kinds)
        return f"Cells({len(self)}: {', '.join(f'{count} {kind}' for kind, count in counts.items())})"

    @overload
    def __getitem__(self, number: int) -> Cell: ...
    @overload
    def __getitem__(self, number: slice) -> Cells: ...
    def __getitem__(self, number: int | slice) -> Cell | Cells:
        if isinstance(number, slice):
            return self.taken(torch.arange(len(self))[number])
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no cell {number}; there are {len(self)}, 0 to {len(self) - 1}")
        names = ("image", "region", "frame", "row", "column")
        return Cell(
            number=number % len(self),
            kind=KINDS[int(self.kind[number])],
            **{name: int(getattr(self, name)[number]) for name in names},
            box=_box(self.box[number]),
            source_box=_box(self.source_box[number]),
        )

    def __iter__(self) -> Iterator[Cell]:
        return (self[number] for number in range(len(self)))


def _box(held: Tensor) -> Box | None:
    if bool(held.isnan().any()):
        return None
    left, top, right, bottom = held.tolist()
    return left, top, right, bottom
