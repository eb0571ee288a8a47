"""Which way the cells of a sweep are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.engine.features import FeatureCells
from belvedere.experiments.engine.states import StateCells
from belvedere.experiments.engine.text import TextCells
from belvedere.experiments.engine.tower import TowerCells
from belvedere.experiments.engine.traced import TracedCells
from belvedere.experiments.engine.trial import holds
from belvedere.experiments.engine.trust import known, shapes_of, state_of

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

Cell = tuple[int, tuple[int, ...]]

__all__ = ["Cells", "cells_of"]

WHOLE = "whole forwards"


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
    """Cells that are tried first.

    Attributes:
        lesson: What a run of one prompt has taught them.
    """

    lesson: Any

    @property
    def about(self) -> Any:
        """What else a trial of these cells depends on, beside the model and the site."""

    def watching(self) -> AbstractContextManager[None]:
        """While it holds, the model runs one prompt, of which the cells may learn."""

    def vectors(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The site's value at some positions in the clean and in the corrupt run, ``[rows, width]``."""


def cells_of(model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups) -> tuple[Cells, dict[str, str]]:
    """The cells of a sweep, in the first way that agrees with whole forwards.

    Returns:
        The cells, and how they are run: in a word, and why not otherwise where they are whole forwards.
    """
    if site.is_state:
        return StateCells(model, pair, site, groups), {"cells": WHOLE, "because": "a state is inside of a kernel"}
    why = ""
    for name, made in _ways(model, pair, site, groups):
        try:
            return _tried(made(), model, pair, site, groups), {"cells": name}
        except Exception as error:
            # Whatever a stack does that the engine does not foresee, whole forwards are right.
            why = f"{type(error).__name__}: {error}"
    return TracedCells(model, pair, site, groups), {"cells": WHOLE, "because": why}


def _ways(
    model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups
) -> Iterator[tuple[str, Callable[[], Tried]]]:
    """The ways to try, from the one that runs the least."""
    if site.is_tower:
        yield "from the patched tower block", lambda: TowerCells(model, pair, site, groups)
    else:
        kind = FeatureCells if site.is_features else TextCells
        yield "from the patched block and position", lambda: kind(model, pair, site, groups)
        yield "from the patched block", lambda: kind(model, pair, site, groups, shares=False)


def _tried(cells: Tried, model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups) -> Cells:
    """The same cells, once they agree with whole forwards, now or for such inputs before.

    Raises:
        InputError: They do not.
    """
    about = (site.path, tuple(site.hosts), cells.about, shapes_of(pair.corrupt.encoding), state_of(model))
    if about in known(model):
        cells.lesson = known(model)[about]
        return cells
    held = holds(cells, model, pair, site, groups)
    if held is False:
        raise InputError("a trial did not agree with a whole forward")
    if held:
        known(model)[about] = cells.lesson
    return cells
