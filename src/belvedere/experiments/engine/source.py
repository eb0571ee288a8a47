"""Where the vectors come from that a cell puts in the place of its run's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups
    from belvedere.experiments.sites import Site

__all__ = ["CLEAN", "Clean", "Source", "busy"]


class Source(Protocol):
    """Gives the new vectors of some positions."""

    @property
    def kind(self) -> str:
        """What sets it apart from others, for trials."""

    def new(self, layer: int, positions: Sequence[int], clean: Tensor) -> Tensor:
        """What is put at some positions of a block, ``[positions, width]``, where the clean run has these vectors."""


class Clean:
    """The clean run's own vectors."""

    kind = "clean"

    def new(self, layer: int, positions: Sequence[int], clean: Tensor) -> Tensor:
        """What the clean run has there."""
        return clean


CLEAN = Clean()


def busy(
    site: Site, groups: Groups, vectors: Callable[[int, Tensor], tuple[Tensor, Tensor]]
) -> dict[int, frozenset[int]]:
    """By block, the positions of some groups at which a cell's new vector is another than the run's own.

    Args:
        site: The value.
        groups: The positions of each cell.
        vectors: ``vectors(layer, rows)`` gives the new and the old ones.
    """
    wanted = sorted({number for group in groups for number in group})
    found = {}
    for layer in site.hosts:
        new, old = vectors(layer, torch.tensor(wanted))
        differs = (new != old).any(-1).tolist()
        found[layer] = frozenset(number for number, other in zip(wanted, differs, strict=True) if other)
    return found
