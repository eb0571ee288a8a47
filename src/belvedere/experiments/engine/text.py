"""The cells of a sweep over text blocks, by replays of the corrupt run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.experiments.engine.observed import BlockCall, Observed, noting_calls, observe, without_data
from belvedere.experiments.engine.places import Places, Spots
from belvedere.experiments.engine.replay import Entry, Replay
from belvedere.experiments.engine.source import CLEAN, Source, busy
from belvedere.experiments.runs import joined

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["TextCells"]


@dataclass(eq=False)
class TextCells:
    """Cells whose value is of the text blocks.

    Args:
        model: The model.
        pair: The clean and the corrupt input.
        site: What is patched.
        groups: The positions of each cell.
        source: Where the new vectors come from.
        shares: Whether a cell begins at its first position, where that can be.

    Raises:
        InputError: The value, or the stack, is none that can be replayed.
    """

    model: StandardizedTransformer
    pair: Pair
    site: Site
    groups: Groups
    source: Source = CLEAN
    shares: bool = True

    @torch.no_grad()
    def __post_init__(self) -> None:
        self.places = Places(self.site)
        sides = (self.pair.corrupt, self.pair.clean)
        encoding = joined(*sides)
        with self.places.noting() as self._outputs:
            run = observe(self.model, encoding, [side.last for side in sides])
        self.places.learn(self.model, encoding)
        self.replay = Replay(self.model, self.pair.corrupt, run)
        self.replay.shares = self.shares
        self._busy = busy(self.site, self.groups, self.vectors)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While it holds, the model runs one prompt."""
        with noting_calls(self.model) as calls:
            yield
        self.lesson = [without_data(call) for call in calls]

    @property
    def lesson(self) -> Any:
        """What a run of one prompt has taught."""
        return self.replay.alone

    @lesson.setter
    def lesson(self, calls: list[BlockCall]) -> None:
        self.replay.alone = calls

    @property
    def about(self) -> Any:
        """What else a trial of these cells depends on."""
        return self.replay.about

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The logits of the clean and of the corrupt run, ``[1, vocab]``."""
        logits = self.replay.run.logits.float()
        return logits[1:], logits[:1]

    @property
    def mixes(self) -> bool:
        """Cells of later blocks join a replay when it has come there, unless blocks hand something to each other."""
        return not any(call.shared for call in self.replay.run.calls)

    def kind(self, layer: int) -> str:
        """What sets a block apart from others of the site."""
        return self.places.kind(layer)

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Whether a patch cannot change the measured logits."""
        last, start = self.replay.side.last, self._start(layer)
        rows = self._rows(layer, group)
        if not rows:
            return True
        if start == self.model.num_layers:
            return last not in rows
        return min(rows) > last and bool(self.replay.cuts(start)[last + 1])

    def cut(self, layer: int, group: tuple[int, ...]) -> int:
        """The first position that a cell runs."""
        return int(self.replay.last_cuts(self._start(layer))[min([*self._rows(layer, group), self.replay.side.last])])

    def work(self, layer: int, cut: int) -> tuple[int, int]:
        """How many rows of how many blocks a cell runs."""
        return self.replay.length - cut, self.model.num_layers - self._start(layer)

    def logits(self, cells: Sequence[tuple[int, tuple[int, ...]]]) -> Tensor:
        """The measured logits of some cells, ordered by block, ``[cells, vocab]``."""
        cut = min(self.cut(*cell) for cell in cells)
        alike = groupby(cells, itemgetter(0))
        with torch.inference_mode():
            entries = [self._entry(layer, [group for _, group in found], cut) for layer, found in alike]
            logits = self.replay.logits(entries, cut).float()
        # Outside of inference mode a copy is a tensor like any other, for whatever a metric does.
        return logits.clone()

    def _entry(self, layer: int, groups: Sequence[tuple[int, ...]], cut: int) -> Entry:
        """The cells of one block, as they enter a replay."""
        spots = Spots.of([self._live(layer, group) for group in groups], self.site.heads)
        vectors = self._patched(layer, spots)
        run = self.replay.run
        stream = (run.entering if self.places.enters else run.leaving)[layer][:1, cut:]
        hidden = stream.expand(len(groups), -1, -1).clone()
        hidden[spots.copies, spots.rows - cut] = vectors.to(hidden)
        if not self.places.enters:
            hidden = self.replay.behind(layer, hidden, cut)
        return Entry(self._start(layer), hidden, spots.copies, spots.rows)

    def vectors(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What is put at some units, and what the corrupt run has there, ``[units, width]``."""
        corrupt, clean = (held[rows.to(held.device)] for held in self._values(layer))
        return self.source.new(layer, rows.tolist(), clean).to(corrupt), corrupt

    def _live(self, layer: int, group: Sequence[int]) -> list[int]:
        """Those of some units whose new vector is another than the run's own."""
        return [unit for unit in group if unit in self._busy[layer]]

    def _rows(self, layer: int, group: Sequence[int]) -> set[int]:
        """The positions of these."""
        return {unit // self.site.heads for unit in self._live(layer, group)}

    def _patched(self, layer: int, spots: Spots) -> Tensor:
        """What the stream is at the patched positions, ``[rows, hidden]``."""
        new = self.vectors(layer, spots.units)[0].reshape(len(spots.rows), -1)
        if not self.places.inside:
            return new
        return self.replay.rerun(layer, spots.rows, self.places.answers(layer, self._outputs, spots, new))

    def _values(self, layer: int) -> Tensor:
        """The site's value in the corrupt and in the clean run, ``[2, units, width]``."""
        if self.places.inside:
            return self.places.values(layer, self._outputs)
        run: Observed = self.replay.run
        return (run.entering if self.places.enters else run.leaving)[layer]

    def _start(self, layer: int) -> int:
        """The first block that runs as a whole."""
        return layer if self.places.enters else layer + 1
