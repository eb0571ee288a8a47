"""A value laid out as the pictures are, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry.cells import Cells, Region

__all__ = ["Arrangement", "Grids"]


@dataclass(frozen=True, eq=False)
class Grids(Sequence[Tensor]):
    """A value by picture: ``grids[image]`` is ``[..., frames, rows, columns, ...]``, tiles stitched together.

    Args:
        maps: One tensor for each region, as `regions` lists them.
        rest: The value at what stands in no grid: CLS, registers, padding, newlines.
        arrangement: What laid the value out, and leads back.
        dim: The axis that became three.
        lead: The shape of that axis before; two axes where images and rows were apart.
    """

    maps: tuple[Tensor, ...]
    rest: Tensor
    arrangement: Arrangement
    dim: int
    lead: tuple[int, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        """The grids: a picture each, and the thumbnails of pictures that are cut into tiles."""
        return self.arrangement.regions

    @property
    def of(self) -> str:
        """What the value was laid out as."""
        return self.arrangement.name

    @property
    def thumbnails(self) -> dict[int, Tensor]:
        """The thumbnail of each picture that has one, by picture."""
        shown = zip(self.regions, self.maps, strict=True)
        return {region.image: held for region, held in shown if region.part == "thumbnail"}

    def __len__(self) -> int:
        return max((region.image for region in self.regions), default=-1) + 1

    @overload
    def __getitem__(self, image: int) -> Tensor: ...

    @overload
    def __getitem__(self, image: slice) -> list[Tensor]: ...

    def __getitem__(self, image: int | slice) -> Tensor | list[Tensor]:
        if isinstance(image, slice):
            return [self[number] for number in range(len(self))[image]]
        if not -len(self) <= image < len(self):
            raise IndexError(f"there is no picture {image}; there are {len(self)}")
        shown = zip(self.regions, self.maps, strict=True)
        whole = [held for region, held in shown if (region.image, region.part) == (image % len(self), "picture")]
        if not whole and all(region.image != image % len(self) for region in self.regions):
            raise InputError(f"picture {image} is not among those that were laid out; there are {self.regions}")
        if not whole:
            raise InputError(
                f"how the tiles of picture {image} lie is not known, so they are no one map; "
                "pass the picture itself or `sizes=[(width, height)]`, or read `maps`, one for each tile"
            )
        return whole[0]

    def __repr__(self) -> str:
        shown = zip(self.regions, self.maps, strict=True)
        return f"Grids({', '.join(f'{region.part} {region.image}: {list(held.shape)}' for region, held in shown)})"


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Where each cell of one order of rows stands in the grids.

    Args:
        name: What has this order.
        regions: The grids.
        placed: For each grid, ``[frames * rows * columns]``: the number of the row that stands there.
        rest: The numbers of the rows that stand in none.
    """

    name: str
    regions: tuple[Region, ...]
    placed: tuple[Tensor, ...]
    rest: Tensor

    @classmethod
    def of(cls, name: str, cells: Cells, regions: tuple[Region, ...]) -> Arrangement:
        """The arrangement of a table's cells."""
        inside = cells.region.ge(0).nonzero().flatten()
        shapes = torch.tensor([region.shape for region in regions]).view(-1, 3)
        starts = torch.cat([torch.zeros(1, dtype=torch.long), shapes.prod(-1).cumsum(0)])
        own = cells.region[inside]
        _, rows, columns = shapes[own].unbind(-1)
        spot = (cells.frame[inside] * rows + cells.row[inside]) * columns + cells.column[inside]
        placed = torch.split(inside[(starts[own] + spot).argsort()], shapes.prod(-1).tolist())
        return cls(name, regions, tuple(placed), cells.region.eq(-1).nonzero().flatten())

    def __len__(self) -> int:
        return sum(len(one) for one in self.placed) + len(self.rest)

    def is_like(self, other: Arrangement) -> bool:
        """Whether another arrangement puts every row at the same place."""
        own, others = [*self.placed, self.rest], [*other.placed, other.rest]
        return len(own) == len(others) and all(torch.equal(*pair) for pair in zip(own, others, strict=True))

    def laid(self, value: Tensor, dim: int, lead: tuple[int, ...]) -> Grids:
        """A value with an axis of this order, by picture; ``lead`` is that axis, or the two that it is spread over."""
        value = value.flatten(0, 1) if len(lead) > 1 else value
        maps = [
            _apart(value.index_select(dim, index.to(value.device)), dim, region.shape)
            for index, region in zip(self.placed, self.regions, strict=True)
        ]
        rest = value.index_select(dim, self.rest.to(value.device))
        return Grids(tuple(maps), rest, self, dim, lead)

    def flat(self, maps: Sequence[Tensor], rest: Tensor | None, dim: int) -> Tensor:
        """The way back of `laid`; zeros at what stands in no grid where ``rest`` is not given."""
        rows = [held.flatten(dim, dim + 2) for held in maps]
        if rest is None:
            shape = list(rows[0].shape)
            shape[dim] = len(self.rest)
            rest = rows[0].new_zeros(shape)
        order = torch.cat([*self.placed, self.rest]).argsort()
        return torch.cat([*rows, rest], dim).index_select(dim, order.to(rest.device))


def _apart(rows: Tensor, dim: int, shape: tuple[int, int, int]) -> Tensor:
    """One axis as frames, rows and columns."""
    return rows.reshape(*rows.shape[:dim], *shape, *rows.shape[dim + 1 :])
