"""A pack: the patches of several pictures and videos in one row, told apart by their grids.

A grid is ``(t, h, w)``: frames, rows and columns of patches, as an encoding's ``image_grid_thw`` has them. Everything
about a pack follows from its grids alone, so it is worked out in whole numbers on the host, for all patches at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["HOST", "Merge", "Pack", "Places", "device_of", "host_grids", "locate", "per_entry"]

#: ``(t, h, w)`` of each entry, as numbers or as an int tensor ``[entries, 3]``.
Pack: TypeAlias = Sequence[Sequence[int]] | Tensor

#: The side of a fold: one for all entries, or one for each.
Merge: TypeAlias = int | Sequence[int] | Tensor

HOST = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where each patch of a pack is: tensors ``[patches]``, in the tower's order.

    Args:
        entry: The number of its picture or video.
        frame: Its frame within the entry.
        row: Its row within the frame.
        column: Its column within the frame.
        rows: How many rows its frame has.
        columns: How many columns its frame has.
    """

    entry: Tensor
    frame: Tensor
    row: Tensor
    column: Tensor
    rows: Tensor
    columns: Tensor


def host_grids(grid: Pack) -> Tensor:
    """Grids as whole numbers on the host, ``[entries, 3]``; a tensor on a device is moved here, once.

    Raises:
        ValueError: A grid is not three positive numbers.
    """
    given = torch.as_tensor(grid, device=HOST)
    grids = given.to(torch.int64)
    if given.is_floating_point() and not torch.equal(given, grids.to(given.dtype)):
        raise ValueError("grids are (t, h, w) of each picture or video, whole numbers")
    if not grids.numel():
        return grids.reshape(0, 3)
    if grids.ndim != 2 or grids.shape[1] != 3 or int(grids.min()) < 1:
        raise ValueError("grids are (t, h, w) of each picture or video, three positive numbers an entry")
    return grids


def per_entry(merge: Merge, grids: Tensor) -> Tensor:
    """The side of a fold of each entry, ``[entries]``.

    Raises:
        ValueError: There is not one for each entry, or a grid cannot be folded.
    """
    sides = torch.as_tensor(merge, dtype=torch.int64, device=HOST)
    if sides.ndim and sides.shape != grids.shape[:1]:
        raise ValueError(f"{len(grids)} grids have {len(sides)} merge sizes; pass one for all, or one for each")
    sides = sides.expand(len(grids))
    if (sides < 1).any():
        raise ValueError(f"a fold of {int(sides.min())} patches a side is none; pass a positive number")
    wrong = (grids[:, 1:] % sides[:, None]).any(1)
    if wrong.any():
        (_, rows, columns), side = grids[wrong][0].tolist(), int(sides[wrong][0])
        raise ValueError(f"a grid of {rows} x {columns} patches cannot be folded {side} by {side}")
    return sides


def locate(grids: Tensor, sides: Tensor) -> Places:
    """Where each patch of a pack is, in merge-block order.

    Args:
        grids: From `host_grids`.
        sides: From `per_entry`; 1 for a tower that keeps its patches row by row.
    """
    counts = grids.prod(1)
    entry = torch.arange(len(grids), device=HOST).repeat_interleave(counts)
    before = counts.cumsum(0) - counts
    number = torch.arange(len(entry), device=HOST) - before[entry]
    rows, columns, side = grids[:, 1][entry], grids[:, 2][entry], sides[entry]
    within = number % (rows * columns)
    fold, inside = within // side**2, within % side**2
    across = columns // side
    return Places(
        entry=entry,
        frame=number // (rows * columns),
        row=fold // across * side + inside // side,
        column=fold % across * side + inside % side,
        rows=rows,
        columns=columns,
    )


def device_of(device: torch.device | str | None) -> torch.device:
    """Where a result goes: the host, unless said otherwise."""
    return HOST if device is None else torch.device(device)
