"""Which way the cells of a sweep are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from belvedere.experiments.engine.text import TextCells
from belvedere.experiments.engine.tower import TowerCells
from belvedere.experiments.engine.traced import TracedCells
from belvedere.experiments.engine.trial import holds

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

Cell = tuple[int, tuple[int, ...]]

__all__ = ["Cells", "cells_of"]


class Cells(Protocol):
    """The cells of a sweep, each a block and the positions that are patched there."""

    @property
    def mixes(self) -> bool:
        """Whether cells of different blocks share a forward."""

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The measured logits of the clean and of the corrupt run, ``[1, vocab]``."""

    def kind(self, layer: int) -> str:
        """What sets a block apart from others of the site."""

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Whether a patch cannot change the measured logits."""

    def cut(self, layer: int, group: tuple[int, ...]) -> int:
        """The first position that a cell runs."""

    def work(self, layer: int, cut: int) -> tuple[int, int]:
        """How many rows of how many blocks a cell runs."""

    def logits(self, cells: Sequence[Cell]) -> Tensor:
        """The measured logits of some cells, ordered by block, ``[cells, vocab]``."""


class Tried(Cells, Protocol):
    """Cells that are tried first."""

    def watching(self) -> AbstractContextManager[None]:
        """While it holds, the model runs one prompt, of which the cells may learn."""

    def vectors(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The site's value at some positions in the clean and in the corrupt run, ``[rows, width]``."""


def cells_of(model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups) -> tuple[Cells, str]:
    """The cells of a sweep, and in a word how they are run; the first way that agrees with whole forwards."""
    if groups and pair.length(model, site):
        for name, made in _ways(model, pair, site, groups):
            cells = _tried(made, model, pair, site, groups)
            if cells is not None:
                return cells, name
    return TracedCells(model, pair, site, groups), "whole forwards"


def _ways(
    model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups
) -> Iterator[tuple[str, Callable[[], Tried]]]:
    """The ways to try, from the one that runs the least."""
    if site.is_tower:
        yield "from the patched tower block", lambda: TowerCells(model, pair, site, groups)
    else:
        yield "from the patched block and position", lambda: TextCells(model, pair, site, groups)
        yield "from the patched block", lambda: TextCells(model, pair, site, groups, shares=False)


def _tried(
    made: Callable[[], Tried], model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups
) -> Cells | None:
    """The cells, where they agree with whole forwards."""
    try:
        cells = made()
        return cells if holds(cells, model, pair, site, groups) else None
    except Exception:
        return None
