"""Which way the cells of a sweep are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.engine.features import FeatureCells
from belvedere.experiments.engine.source import CLEAN, Source
from belvedere.experiments.engine.states import StateCells
from belvedere.experiments.engine.text import TextCells
from belvedere.experiments.engine.tower import TowerCells
from belvedere.experiments.engine.traced import ResumedCells, TracedCells
from belvedere.experiments.engine.trial import holds
from belvedere.experiments.engine.trust import known, shapes_of, state_of
from belvedere.experiments.hooks import hooked_around

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
        source: Where their new vectors come from.
    """

    lesson: Any
    source: Source

    @property
    def about(self) -> Any:
        """What else a trial of these cells depends on, beside the model and the site."""

    def watching(self) -> AbstractContextManager[None]:
        """While it holds, the model runs one prompt, of which the cells may learn."""

    def vectors(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What is put at some positions of a block, and what the corrupt run has there, ``[rows, width]``."""


def cells_of(
    model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups, source: Source = CLEAN
) -> tuple[Cells, dict[str, str]]:
    """The cells of a sweep, in the first way that agrees with whole forwards.

    Args:
        model: The model.
        pair: The clean and the corrupt input.
        site: What is patched.
        groups: The positions of each cell.
        source: Where the new vectors come from.

    Returns:
        The cells, and how they are run: in a word, and why not otherwise where they are run in a trace.
    """
    if site.is_state:
        return StateCells(model, pair, site, groups), {"cells": WHOLE, "because": "a state is inside of a kernel"}
    hooked = hooked_around(model)
    if hooked:
        why = f"a hook that is not Belvedere's is on {hooked}"
        return TracedCells(model, pair, site, groups), {"cells": WHOLE, "because": why}
    why = ""
    for name, made in _ways(model, pair, site, groups, source):
        try:
            return _tried(made(), model, pair, site, groups), {"cells": name}
        except Exception as error:
            # Whatever a stack does that the engine does not foresee, whole forwards are right.
            why = f"{type(error).__name__}: {error}"
    try:
        cells = ResumedCells(model, pair, site, groups, source)
    except Exception as error:
        why = f"{why}; {type(error).__name__}: {error}"
        return TracedCells(model, pair, site, groups, source), {"cells": WHOLE, "because": why}
    return cells, {"cells": cells.resumed.way, "because": why}


def _ways(
    model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups, source: Source
) -> Iterator[tuple[str, Callable[[], Tried]]]:
    """The ways to try, from the one that runs the least."""
    if site.is_tower:
        both = "from the patched tower block and the first image token"
        yield both, lambda: TowerCells(model, pair, site, groups, source)
        yield "from the patched tower block", lambda: TowerCells(model, pair, site, groups, source, shares=False)
    else:
        kind = FeatureCells if site.is_features else TextCells
        yield "from the patched block and position", lambda: kind(model, pair, site, groups, source)
        yield "from the patched block", lambda: kind(model, pair, site, groups, source, shares=False)


def _tried(cells: Tried, model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups) -> Cells:
    """The same cells, once they agree with whole forwards, now or for such inputs before.

    Raises:
        InputError: They do not.
    """
    about = (
        site.path,
        tuple(site.hosts),
        cells.about,
        cells.source.kind,
        shapes_of(pair.corrupt.encoding),
        state_of(model),
    )
    if about in known(model):
        cells.lesson = known(model)[about]
        return cells
    held = holds(cells, model, pair, site, groups)
    if held is False:
        raise InputError("a trial did not agree with a whole forward")
    if held:
        known(model)[about] = cells.lesson
    return cells
