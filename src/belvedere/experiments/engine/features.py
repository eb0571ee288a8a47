"""The cells of a sweep over image features, by replays of the corrupt run from the first text block on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.experiments.engine.source import CLEAN, Source
from belvedere.experiments.engine.text import TextCells
from belvedere.experiments.maps import BEFORE
from belvedere.experiments.pairs import image_tokens
from belvedere.experiments.sites import Site

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.standardized import StandardizedTransformer

__all__ = ["FeatureCells"]


@dataclass(eq=False)
class FeatureCells:
    """Cells whose value is written over the placeholders: what enters the first text block there is that very value.

    Args:
        model: The model.
        pair: The clean and the corrupt input.
        site: What is patched.
        groups: The image tokens of each cell, counted over all pictures.
        source: Where the new vectors come from.
        shares: Whether a cell begins at its first position, where that can be.
    """

    model: StandardizedTransformer
    pair: Pair
    site: Site
    groups: Groups
    source: Source = CLEAN
    shares: bool = True

    def __post_init__(self) -> None:
        self._tokens = image_tokens(self.model, self.pair.corrupt)
        groups = tuple(self._at(group) for group in self.groups)
        site, source = Site.find(self.model, "layers.layer_input", [0]), _AtTokens(self.source, self._tokens.tolist())
        self._cells = TextCells(self.model, self.pair, site, groups, source, self.shares)

    def watching(self) -> AbstractContextManager[None]:
        """While it holds, the model runs one prompt."""
        return self._cells.watching()

    @property
    def lesson(self) -> Any:
        """What a run of one prompt has taught."""
        return self._cells.lesson

    @lesson.setter
    def lesson(self, calls: Any) -> None:
        self._cells.lesson = calls

    @property
    def about(self) -> Any:
        """What else a trial of these cells depends on."""
        return self._cells.about

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The logits of the clean and of the corrupt run, ``[1, vocab]``."""
        return self._cells.ends

    @property
    def mixes(self) -> bool:
        """There is one row of cells."""
        return False

    def kind(self, layer: int) -> str:
        """There is one row of cells."""
        return ""

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Whether a patch cannot change the measured logits."""
        return self._cells.is_idle(0, self._at(group))

    def cut(self, layer: int, group: tuple[int, ...]) -> int:
        """The first position that a cell runs."""
        return self._cells.cut(0, self._at(group))

    def work(self, layer: int, cut: int) -> tuple[int, int]:
        """How many rows of how many blocks a cell runs."""
        return self._cells.work(0, cut)

    def logits(self, cells: Sequence[tuple[int, tuple[int, ...]]]) -> Tensor:
        """The measured logits of some cells, ``[cells, vocab]``."""
        return self._cells.logits([(0, self._at(group)) for _, group in cells])

    def vectors(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The features of some image tokens in the clean and in the corrupt run, ``[rows, hidden]``."""
        return self._cells.vectors(0, self._tokens[rows])

    def _at(self, group: Sequence[int]) -> tuple[int, ...]:
        """The positions of image tokens in the prompt."""
        return tuple(self._tokens[torch.tensor(list(group))].tolist())


@dataclass(frozen=True)
class _AtTokens:
    """New features, for whoever counts positions of the prompt."""

    source: Source
    tokens: Sequence[int]

    @property
    def kind(self) -> str:
        return self.source.kind

    def new(self, layer: int, units: Sequence[int], clean: Tensor) -> Tensor:
        return self.source.new(BEFORE, [self.tokens.index(unit) for unit in units], clean)
