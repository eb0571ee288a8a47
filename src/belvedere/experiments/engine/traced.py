"""The cells of a sweep in a trace: by whole forwards, slow and right on any model, or from the patched block on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.engine.resumed import SOME, Resumed
from belvedere.experiments.engine.source import CLEAN, Source, busy
from belvedere.experiments.pairs import Pair
from belvedere.experiments.runs import next_logits, repeated

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["ResumedCells", "TracedCells"]


@dataclass(eq=False)
class TracedCells:
    """Cells that run the whole model, several to a forward.

    The corrupt prompt is repeated, and in the i-th copy the i-th group of positions is overwritten. Rows of the text
    are counted over ``[batch, seq]``, rows of the tower over ``[images, patches]``; either way the copies lie one after
    the other, also in a packed tower, which keeps the patches of all pictures in a single row.

    Args:
        model: The model.
        pair: The clean and the corrupt input.
        site: What is patched.
        groups: The positions of each cell.
        source: Where the new vectors come from.
    """

    model: StandardizedTransformer
    pair: Pair
    site: Site
    groups: Groups
    source: Source = CLEAN

    def __post_init__(self) -> None:
        wanted = sorted({number for group in self.groups for number in group})
        self._index = {number: row for row, number in enumerate(wanted)}
        self._held, self._clean = _clean_run(self.model, self.pair, self.site, torch.tensor(wanted))

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The measured logits of the clean and of the corrupt run, ``[1, vocab]``."""
        return self._clean, self._corrupt

    @cached_property
    def _corrupt(self) -> Tensor:
        return next_logits(self.model, self.pair.corrupt)

    @property
    def mixes(self) -> bool:
        """Only cells of one block share a forward."""
        return False

    def kind(self, layer: int) -> str:
        """All blocks are alike."""
        return ""

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Every cell is run."""
        return False

    def cut(self, layer: int, group: tuple[int, ...]) -> int:
        """Every position is run."""
        return 0

    def work(self, layer: int, cut: int) -> tuple[int, int]:
        """How many rows of how many blocks a cell runs."""
        return 1, self.model.num_layers

    def logits(self, cells: Sequence[tuple[int, tuple[int, ...]]]) -> Tensor:
        """The measured logits of some cells of one block, ``[cells, vocab]``."""
        layer, rows, copies, source = self._new(cells)
        encoding = repeated(self.pair.corrupt.encoding, len(cells))
        return _patched(self.model, encoding, self.pair.corrupt.last, self.site, layer, copies, rows, source)

    def _new(self, cells: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[int, Tensor, Tensor, Tensor]:
        """The block of some cells, the patched rows, the copy of each, and what is put there, ``[rows, width]``."""
        layer = cells[0][0]
        rows = torch.tensor([number for _, group in cells for number in group])
        copies = torch.tensor([copy for copy, (_, group) in enumerate(cells) for _ in group])
        clean = self._held[layer][[self._index[number] for number in rows.tolist()]]
        return layer, rows, copies, self.source.new(layer, rows.tolist(), clean)


@dataclass(eq=False)
class ResumedCells(TracedCells):
    """Cells that run the model from the patched block on, in a trace.

    Raises:
        InputError: The model cannot be taken up there.
    """

    def __post_init__(self) -> None:
        if self.site.is_features:
            raise InputError(f"{self.site.path} comes before every text block, and behind the tower")
        super().__post_init__()
        clean, wanted = self._held, torch.tensor(list(self._index))
        side, found = self.pair.corrupt, list[dict[int, Tensor]]()

        def plain() -> Tensor:
            held, logits = _clean_run(self.model, Pair(clean=side, corrupt=side), self.site, wanted)
            found.append(held)
            return logits

        stack = "vision" if self.site.is_tower else "text"
        many = len(self.site.hosts) * len(self.groups) > SOME
        stops = [layer + 1 for layer in self.site.hosts] if many else []
        self.resumed = Resumed(self.model, side, stack, self.site.hosts, plain, stops)
        (corrupt,) = found

        def vectors(layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
            return self.source.new(layer, rows.tolist(), clean[layer]).to(corrupt[layer]), corrupt[layer]

        self._busy = busy(self.site, self.groups, vectors)

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The measured logits of the clean and of the corrupt run, ``[1, vocab]``."""
        return self._clean, self.resumed.ends

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Whether what is put is what is there."""
        return self._busy[layer].isdisjoint(group)

    def work(self, layer: int, cut: int) -> tuple[int, int]:
        """How many rows of how many blocks a cell runs."""
        beside = self.model.num_layers if self.site.is_tower else 0
        return 1, len(self.resumed.blocks) - layer + beside

    def logits(self, cells: Sequence[tuple[int, tuple[int, ...]]]) -> Tensor:
        """The measured logits of some cells of one block, ``[cells, vocab]``."""
        layer, rows, copies, source = self._new(cells)

        def edit() -> None:
            self.site.put(layer, rows, source, copies)

        return self.resumed.logits(edit, len(cells), layer, layer + 1, int(rows.min()) // self.site.heads)


@torch.no_grad()
def _clean_run(
    model: StandardizedTransformer, pair: Pair, site: Site, rows: Tensor
) -> tuple[dict[int, Tensor], Tensor]:
    """The clean vectors of some positions on every block, ``[positions, width]``, and the measured logits."""
    with model.trace(**pair.clean.encoding):
        held = nnsight.save({layer: site.rows(layer, rows) for layer in site.hosts})
        logits = nnsight.save(model.logits[:, pair.clean.last].float())
    return held, logits


@torch.no_grad()
def _patched(
    model: StandardizedTransformer,
    encoding: dict[str, Any],
    last: int,
    site: Site,
    layer: int,
    copies: Tensor,
    rows: Tensor,
    source: Tensor,
) -> Tensor:
    """The next-token logits of every copy of the corrupt run, with some rows overwritten: ``[copies, vocab]``."""
    with model.trace(**encoding):
        site.put(layer, rows, source, copies)
        logits: Tensor = nnsight.save(model.logits[:, last].float())
    return logits
