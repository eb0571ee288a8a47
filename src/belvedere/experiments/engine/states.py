"""The cells of a sweep over the state of recurrent mixers, by whole forwards in a trace.

No module holds the state between two positions: a kernel runs over all of them. But what a state is made of is served
(keys, values, write strengths and decays), and the heads of a mixer keep a state each. So the positions before are
given what the clean run makes its state of, and the last projection is given the corrupt run's own read-outs wherever
the patched state is not read: at the positions before, and by the other heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.runs import Side, repeated

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["StateCells"]

#: What a state is made of, in the order of the forward.
MADE_OF = ("attention_keys", "attention_values", "betas", "decays")
#: The projection that a recurrent mixer ends with.
LAST = "out_proj"


@dataclass(eq=False)
class StateCells:
    """Cells that give some heads the clean run's state, at a position.

    Args:
        model: The model.
        pair: The clean and the corrupt input.
        site: What is patched.
        groups: The units of each cell, ``position * heads + head``, all of one position.

    Raises:
        InputError: A mixer does not end with a projection of what its heads read.
    """

    model: StandardizedTransformer
    pair: Pair
    site: Site
    groups: Groups

    @torch.no_grad()
    def __post_init__(self) -> None:
        for layer, host in self.site.hosts.items():
            last = getattr(host._module, LAST, None)
            if last is None or last.in_features % self.site.heads:
                raise InputError(f"block {layer} has no {LAST} that reads its heads; its state cannot be patched")
        self._clean, clean = self._made(self.pair.clean)
        self._corrupt, corrupt = self._read_out(self.pair.corrupt)
        self.ends = clean, corrupt

    @property
    def mixes(self) -> bool:
        """Only cells of one block share a forward."""
        return False

    def kind(self, layer: int) -> str:
        """All blocks are alike."""
        return ""

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Whether a patch cannot change the measured logits: the state before the prompt is zero in every run."""
        return not 0 < self._position(group) <= self.pair.corrupt.last

    def cut(self, layer: int, group: tuple[int, ...]) -> int:
        """Every position is run."""
        return 0

    def work(self, layer: int, cut: int) -> tuple[int, int]:
        """How many rows of how many blocks a cell runs."""
        return 1, self.model.num_layers

    @torch.no_grad()
    def logits(self, cells: Sequence[tuple[int, tuple[int, ...]]]) -> Tensor:
        """The measured logits of some cells of one block, ``[cells, vocab]``."""
        layer, groups = cells[0][0], [group for _, group in cells]
        host: Any = self.site.hosts[layer]
        with self.model.trace(**repeated(self.pair.corrupt.encoding, len(cells))):
            for name in MADE_OF:
                self._give(host, layer, name, groups)
            getattr(host, LAST).input = self._mixed(layer, getattr(host, LAST).input, groups)
            logits: Tensor = nnsight.save(self.model.logits[:, self.pair.corrupt.last].float())
        return logits

    def _give(self, host: Any, layer: int, name: str, groups: Sequence[tuple[int, ...]]) -> None:
        """Inside a trace: give each copy what the clean run makes its state of, before the copy's position."""
        given = getattr(host, name).clone()
        for copy, group in enumerate(groups):
            before = self._position(group)
            given[copy, :, :before] = self._clean[layer, name][:, :before]
        setattr(host, name, given)

    def _mixed(self, layer: int, given: Tensor, groups: Sequence[tuple[int, ...]]) -> Tensor:
        """What the last projection is given: their own where the patched state is read, else the corrupt one's."""
        heads = self.site.heads
        own = given.view(*given.shape[:2], heads, -1)
        mixed = self._corrupt[layer].view(1, *own.shape[1:]).repeat(len(groups), 1, 1, 1)
        for copy, group in enumerate(groups):
            chosen, first = sorted({unit % heads for unit in group}), self._position(group)
            mixed[copy, first:, chosen] = own[copy, first:, chosen]
        return mixed.flatten(2)

    def _position(self, group: Sequence[int]) -> int:
        """The position whose state is patched."""
        return group[0] // self.site.heads

    def _made(self, side: Side) -> tuple[dict[tuple[int, str], Tensor], Tensor]:
        """What a run makes its states of, by block and name, and its measured logits."""
        with self.model.trace(**side.encoding):
            held = nnsight.save(
                {
                    (layer, name): getattr(host, name)[0].clone()
                    for layer, host in self.site.hosts.items()
                    for name in MADE_OF
                }
            )
            logits = nnsight.save(self.model.logits[:, side.last].float())
        return held, logits

    def _read_out(self, side: Side) -> tuple[dict[int, Tensor], Tensor]:
        """What the heads of a run read, normed and gated, by block, and its measured logits."""
        with self.model.trace(**side.encoding):
            held = nnsight.save({layer: getattr(host, LAST).input.clone() for layer, host in self.site.hosts.items()})
            logits = nnsight.save(self.model.logits[:, side.last].float())
        return held, logits
