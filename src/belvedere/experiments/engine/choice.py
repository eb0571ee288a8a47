"""Which way the cells of a sweep are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from belvedere.experiments.engine.text import TextCells
from belvedere.experiments.engine.traced import TracedCells
from belvedere.experiments.engine.trial import agree, trial_cells

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Cells", "cells_of"]


class Cells(Protocol):
    """The cells of a sweep."""

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The measured logits of the clean and of the corrupt run, ``[1, vocab]``."""

    def kind(self, layer: int) -> str:
        """What sets a block apart from others of the site."""

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Whether a patch cannot change the measured logits."""

    def cut(self, layer: int, group: tuple[int, ...]) -> int:
        """The first position that a cell runs."""

    def logits(self, layer: int, cells: Groups) -> Tensor:
        """The measured logits of some cells of one block, ``[cells, vocab]``."""


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
) -> Iterator[tuple[str, Callable[[], Cells]]]:
    """The ways to try, from the one that runs the least."""
    if not site.is_tower:
        yield "from the patched block and position", lambda: TextCells(model, pair, site, groups)
        yield "from the patched block", lambda: TextCells(model, pair, site, groups, shares=False)


def _tried(
    made: Callable[[], Cells], model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups
) -> Cells | None:
    """The cells, where they agree with whole forwards."""
    dtype = next(model.embed_tokens._module.parameters()).dtype
    try:
        cells = made()
        kinds = {cells.kind(layer): layer for layer in reversed(site.hosts)}
        # All swept positions at once, where every difference shows, and some alone.
        for layer in kinds.values():
            tried = trial_cells(groups)
            theirs = TracedCells(model, pair, site, tried, layers=(layer,)).logits(layer, tried)
            ours = torch.cat([cells.logits(layer, (group,)) for group in tried])
            if not agree(ours, theirs, dtype):
                return None
    except Exception:
        import traceback; traceback.print_exc()
        return None
    return cells
