"""Copies of a run, taken up in the middle: from a text block on, and from a position on.

What one prompt's run leaves is enough for any number of copies that differ from it in a few vectors: the blocks before
the patched one are not run, nor are the positions before the first patched one, whose keys, values and states stand
ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.engine.caches import Given, Noted, Prefix, Read, Reading
from belvedere.experiments.engine.cuts import EVERY, cuts_of
from belvedere.experiments.engine.growth import Copies, is_square
from belvedere.experiments.engine.observed import (
    BlockCall,
    Observed,
    first,
    observe_added,
    text_blocks,
)
from belvedere.experiments.runs import Side, kept
from belvedere.head import as_logits
from belvedere.staged.answers import answered

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Replay"]

MASK = "attention_mask"
P = TypeVar("P", bound=Prefix)


class Replay:
    """A run of one prompt that can be taken up at any text block.

    Args:
        model: The model.
        side: The prompt.
        run: A run of it beside another one of the same shape.

    Attributes:
        alone: What the blocks are called with for one prompt, which tells what grows with their number.

    Raises:
        InputError: The stack does something to the stream between two blocks that is no addition.
    """

    def __init__(self, model: StandardizedTransformer, side: Side, run: Observed) -> None:
        self.model, self.side, self.run = model, side, run
        #: Whether positions before the first patched one are shared by all copies.
        self.shares = True
        self.blocks = text_blocks(model)
        self.alone: list[BlockCall] = []
        self.added = self._between() if run.seams else {}
        self._states: dict[tuple[int, int], dict[int, Tensor]] = {}
        self._cuts: dict[int, Tensor] = {}

    def _between(self) -> dict[int, Tensor]:
        """What the stack adds behind blocks, by block."""
        run = self.run
        entering = observe_added(self.model, self.side.encoding, [self.side.last], run.in_tuple)
        added = {number: entering[number + 1] for number in run.seams}
        for number, one in added.items():
            if not torch.equal(run.leaving[number][:1] + one, run.entering[number + 1][:1]):
                raise InputError(f"what the stack does to the stream behind block {number} is no addition")
        return added

    @property
    def length(self) -> int:
        """How many positions the prompt has."""
        return self.side.length

    def cuts(self, start: int) -> Tensor:
        """``[positions + 1]``: from which positions on the blocks from ``start`` on can run alone."""
        if not self.shares:
            return torch.arange(self.length + 1) == 0
        if start not in self._cuts:
            masks = [mask for number in range(start, len(self.blocks)) for mask in self._masks(number)]
            self._cuts[start] = cuts_of(masks, self.length, kept(self.side.encoding))
        return self._cuts[start]

    def cut(self, start: int, position: int) -> int:
        """The last position up to this one from which the blocks can run alone."""
        return int(self.cuts(start)[: position + 1].nonzero().max())

    def logits(self, start: int, hidden: Tensor, cut: int) -> Tensor:
        """The logits of the measured position, ``[copies, vocab]``.

        Args:
            start: The first block to run; the number of blocks, to run none.
            hidden: What enters it, ``[copies, positions, hidden]``, from the cut on.
            cut: The first position that is run.
        """
        last = self.side.last - cut
        if start < len(self.blocks):
            hidden, last = self._through(start, hidden, cut), 0
        projected = self.model.lm_head._module(self.model.norm._module(hidden[:, last : last + 1]))
        return as_logits(projected, self.model._module, self.model.config)[:, 0]

    def behind(self, number: int, hidden: Tensor, cut: int) -> Tensor:
        """What enters the block after this one, from what leaves this one."""
        added = self.added.get(number)
        return hidden if added is None else hidden + added[:, cut:]

    def _through(self, start: int, hidden: Tensor, cut: int) -> Tensor:
        """The last block's stream at the measured position, ``[copies, 1, hidden]``."""
        copies = Copies(len(hidden), self.length, cut)
        prefix = self._prefix(Prefix, cut, len(hidden)) if cut else None
        shared: dict[int, Any] = {}
        for number in range(start, len(self.blocks) - 1):
            output = self._call(number, hidden, copies, prefix, shared)
            hidden = self.behind(number, first(output), cut)
        return self._ending(hidden, copies, prefix, shared)

    def _prefix(self, kind: type[P], cut: int, times: int) -> P:
        return kind(self.run.noted, lambda *of: self._state(*of, cut), cut, times)

    def _ending(self, hidden: Tensor, copies: Copies, prefix: Prefix | None, shared: dict[int, Any]) -> Tensor:
        """The last block, of which the other positions' keys and values are all that anyone reads."""
        number, cut, last = len(self.blocks) - 1, copies.start, self.side.last
        if not (self.shares and self._keyed[number] and self._masks(number) != [None]):
            return first(self._call(number, hidden, copies, prefix, shared))[:, last - cut : last - cut + 1]
        reading = self._prefix(Reading, cut, len(hidden))
        with suppress(Read):
            self._call(number, hidden, copies, reading, shared)
        at_last = Copies(len(hidden), self.length, last, last + 1)
        return first(self._call(number, hidden[:, last - cut : last - cut + 1], at_last, Given(reading), shared))

    def _call(
        self, number: int, hidden: Tensor, copies: Copies, cache: Noted | None, shared: dict[int, Any] | None = None
    ) -> Any:
        """What a block returns for some copies."""
        call, alone = self.run.calls[number], self.alone[number]
        args = [copies.of(*pair) for pair in zip(alone.args, call.args, strict=True)]
        kwargs = {name: copies.of(alone.kwargs.get(name), held) for name, held in call.kwargs.items()}
        for name, held in call.shared.items():
            # What an earlier block of this replay left in it, later ones find.
            kwargs[name] = kwargs[name] if shared is None else shared.setdefault(id(held), kwargs[name])
        args, kwargs = call.given(args, kwargs, cache)
        if copies.start and self._is_bare(number):
            kwargs[MASK] = self._triangle[:, :, copies.start : copies.stop].to(hidden.device)
        if call.keyword:
            return self.blocks[number](*args, **{call.keyword: hidden, **kwargs})
        return self.blocks[number](hidden, *args, **kwargs)

    def rerun(self, number: int, rows: Tensor, answers: Mapping[torch.nn.Module, Any]) -> Tensor:
        """What leaves a block at some positions, ``[rows, hidden]``, with parts of it answered for.

        Among them must be what mixes positions: all else of a block is of each position alone.

        Args:
            number: The block.
            rows: The positions, as often as they are wanted.
            answers: What each part returns.
        """
        stream = self.run.entering[number][:1]
        entering = stream.index_select(1, rows.to(stream.device))
        with answered(list(answers), list(answers.values())):
            output = self._call(number, entering, Copies(1, self.length, rows=rows), None)
        return first(output)[0]

    # What each block attends to

    @cached_property
    def _keyed(self) -> list[bool]:
        """Whether each block left keys for later positions."""
        left = self.run.noted.keys
        return [not left.keys().isdisjoint(_numbers(block)) for block in self.blocks]

    @cached_property
    def _recurrent(self) -> list[bool]:
        """Whether each block carries a state or a convolution along the positions, and does not attend."""
        left = {number for number, _ in [*self.run.noted.states, *self.run.noted.convolved]}
        return [not left.isdisjoint(_numbers(block)) for block in self.blocks]

    @cached_property
    def _kernel(self) -> str:
        return str(getattr(self.blocks[0], "config", self.model.config)._attn_implementation)

    def _is_bare(self, number: int) -> bool:
        """Whether a block's attention is causal because it gets no mask, which holds from the first position on."""
        return self.run.calls[number].kwargs.get(MASK, 0) is None and not self._recurrent[number] and "sdpa" in self._kernel

    def _masks(self, number: int) -> list[Any]:
        """What a block's attention is masked by."""
        call: BlockCall = self.run.calls[number]
        if call.cache is None:
            return [None]
        held = [*call.args, *call.kwargs.values()]
        masks = [one for one in held if is_square(one, self.length)]
        if masks or self._recurrent[number]:
            return masks or [EVERY]
        return [EVERY if "eager" not in self._kernel else None]

    @cached_property
    def _triangle(self) -> Tensor:
        return torch.ones(self.length, self.length, dtype=torch.bool).tril()[None, None]

    def _state(self, layer: int, number: int, cut: int) -> Tensor | None:
        """The state of a recurrent mixer at a cut, by a run of its block over what is before."""
        if (layer, number) not in self.run.noted.states:
            return None
        held = self._states.setdefault((layer, number), {})
        if cut not in held:
            noted = Noted()
            before = Copies(1, self.length, 0, cut)
            self._call(layer, self.run.entering[layer][:1, :cut], before, noted)
            held[cut] = noted.states[layer, number]
        return held[cut]




def _numbers(block: torch.nn.Module) -> set[Any]:
    """The numbers by which a block's parts call a cache."""
    return {getattr(part, "layer_idx", None) for part in block.modules()}
