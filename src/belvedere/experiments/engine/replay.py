"""Copies of a run, taken up in the middle: from a text block on, and from a position on.

What one prompt's run leaves is enough for any number of copies that differ from it in a few vectors: the blocks before
the patched one are not run, nor are the positions before the first patched one, whose keys, values and states stand
ready.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.engine.caches import Given, Noted, Prefix, Read, Reading, Replacing
from belvedere.experiments.engine.cuts import EVERY, cuts_of
from belvedere.experiments.engine.growth import Copies, is_square
from belvedere.experiments.engine.observed import (
    BlockCall,
    Observed,
    first,
    observe_added,
    text_blocks,
)
from belvedere.experiments.engine.trust import shapes_of
from belvedere.experiments.runs import Side, kept
from belvedere.head import as_logits
from belvedere.staged.answers import RECORDER, answered
from belvedere.staged.segments import bare

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Entry", "Replay"]

MASK = "attention_mask"
P = TypeVar("P", bound=Prefix)


@dataclass(frozen=True, eq=False)
class Entry:
    """Copies of a run that enter a replay at one block.

    Args:
        start: The first block that they run; the number of blocks, to run none.
        hidden: What enters it, ``[copies, positions, hidden]``, from the cut on.
        copies: The copy of each vector in which they differ from the run.
        rows: Its position.
    """

    start: int
    hidden: Tensor
    copies: Tensor
    rows: Tensor


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
        #: Edges that are cut, by block: ``[copies, heads or 1, query, key]``.
        self.edges: Mapping[int, Tensor] = {}
        found = text_blocks(model)
        self.blocks = _lean(found)
        pairs = zip(found, self.blocks, strict=True)
        self._twins = {
            one: twin for pair in pairs for one, twin in zip(*(part.modules() for part in pair), strict=True)
        }
        self.alone: list[BlockCall] = []
        self.added = self._between() if run.seams else {}
        self._states: dict[tuple[int, int], dict[int, Tensor]] = {}
        self._cuts: dict[int, Tensor] = {}
        self._last_cuts: dict[int, list[int]] = {}

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
    def about(self) -> Any:
        """What a trial of a replay depends on."""
        run = self.run
        called = [(call.args, call.kwargs, call.keyword, call.cache) for call in run.calls]
        return self.shares, tuple(run.seams), shapes_of(called), shapes_of(run.entering)

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

    def last_cuts(self, start: int) -> list[int]:
        """For each position the last one up to it from which the blocks from ``start`` on can run alone."""
        if start not in self._last_cuts:
            places = torch.where(self.cuts(start), torch.arange(self.length + 1), 0)
            self._last_cuts[start] = places.cummax(0).values.tolist()
        return self._last_cuts[start]

    def first_of(self, begun: int) -> int:
        """The first position to run for pictures whose first token is here.

        A recurrent mixer's state is in single precision, and what little comes before a picture is not worth its
        rounding.
        """
        return 0 if any(self._recurrent) else self.last_cuts(0)[min(begun, self.side.last)]

    def logits(self, entries: Sequence[Entry], cut: int) -> Tensor:
        """The logits of the measured position, ``[copies, vocab]``.

        Args:
            entries: Copies by where they enter, in the order of the blocks.
            cut: The first position that is run.
        """
        place = self.side.last - cut
        ended = [entry.hidden[:, place : place + 1] for entry in entries if entry.start == len(self.blocks)]
        through = [entry for entry in entries if entry.start < len(self.blocks)]
        parts = [*([self._through(through, cut)] if through else []), *ended]
        last = torch.cat([part.to(parts[0].device) for part in parts])
        projected = self.model.lm_head._module(self.model.norm._module(last))
        return as_logits(projected, self.model._module, self.model.config)[:, 0]

    def behind(self, number: int, hidden: Tensor, cut: int) -> Tensor:
        """What enters the block after this one, from what leaves this one."""
        added = self.added.get(number)
        return hidden if added is None else hidden + added[:, cut:]

    def _through(self, entries: Sequence[Entry], cut: int) -> Tensor:
        """The last block's stream at the measured position, ``[copies, 1, hidden]``."""
        waiting = {entry.start: entry for entry in entries}
        end = len(self.blocks) - 1
        hidden, shared = entries[0].hidden[:0], dict[int, Any]()
        for number in range(entries[0].start, end):
            if number in waiting:
                hidden = torch.cat([hidden, waiting[number].hidden.to(hidden.device)])
            copies = Copies(len(hidden), self.length, cut)
            prefix = self._prefix(Prefix, cut, len(hidden)) if cut else None
            hidden = self.behind(number, first(self._call(number, hidden, copies, prefix, shared)), cut)
        arriving = waiting.get(end)
        if not (self.shares and self._keyed[end] and self._masks(end) != [None]):
            hidden = hidden if arriving is None else torch.cat([hidden, arriving.hidden.to(hidden.device)])
            prefix = self._prefix(Prefix, cut, len(hidden)) if cut else None
            output = self._call(end, hidden, Copies(len(hidden), self.length, cut), prefix, shared)
            return first(output)[:, self.side.last - cut][:, None]
        return self._ending(hidden, cut, shared, arriving)

    def _prefix(self, kind: type[P], cut: int, times: int) -> P:
        return kind(self.run.noted, lambda layer, state: self._state(layer, state, cut), cut, times)

    def _ending(self, hidden: Tensor, cut: int, shared: dict[int, Any], arriving: Entry | None) -> Tensor:
        """The last block, of which the other positions' keys and values are all that anyone reads.

        Args:
            hidden: What enters it, from the cut on.
            cut: The first position that is run.
            shared: What the blocks before left for it.
            arriving: Copies that enter here, if any do: all but their own vectors have their keys already.
        """
        number, place, read, last = len(self.blocks) - 1, self.side.last - cut, list[Reading](), list[Tensor]()
        if len(hidden):
            copies = Copies(len(hidden), self.length, cut)
            read.append(self._read(hidden, copies, self._prefix(Reading, cut, len(hidden)), shared))
            last.append(hidden[:, place : place + 1])
        if arriving is not None:
            entry, times = arriving, len(arriving.hidden)
            vectors = entry.hidden[entry.copies, entry.rows - cut][None]
            replacing = Replacing(self.run.noted, entry.copies, entry.rows, times)
            read.append(self._read(vectors, Copies(1, self.length, rows=entry.rows), replacing, shared))
            last.append(entry.hidden[:, place : place + 1])
        ending = torch.cat([one.to(last[0].device) for one in last])
        at_last = Copies(len(ending), self.length, self.side.last, self.side.last + 1)
        return first(self._call(number, ending, at_last, Given(read), shared))

    def _read(self, hidden: Tensor, copies: Copies, reading: Reading, shared: dict[int, Any]) -> Reading:
        """The keys and values of the last block."""
        with suppress(Read):
            self._call(len(self.blocks) - 1, hidden, copies, reading, shared)
        return reading

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
        # Chosen rows attend to nothing: only their keys are read, or what mixes positions is answered for.
        cuts = number in self.edges and copies.rows is None
        if (copies.start or cuts) and self._is_bare(number):
            causal = self._triangle[:, :, copies.start : copies.stop].to(hidden.device)
            args, kwargs = call.given(args, kwargs, causal, place=self._mask_place(number))
        if cuts:
            args, kwargs = self._cut(number, copies, args, kwargs)
        if call.keyword:
            return self.blocks[number](*args, **{call.keyword: hidden, **kwargs})
        return self.blocks[number](hidden, *args, **kwargs)

    def _cut(
        self, number: int, copies: Copies, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with edges cut in every mask among them.

        Raises:
            InputError: There is none.
        """
        call, edges = self.run.calls[number], self.edges[number][:, :, copies.start : copies.stop]
        passed: list[tuple[str | int, Any]] = [*enumerate(call.args), *call.kwargs.items()]
        places = [place for place, held in passed if is_square(held, self.length)]
        if self._is_bare(number):
            places = [place for place, _ in passed if place == self._mask_place(number)]
        if not places:
            raise InputError(f"block {number} is called with no mask over pairs of positions")
        for place in places:
            mask = args[place] if isinstance(place, int) else kwargs[place]
            gone = edges.to(mask.device)
            lowest = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
            args, kwargs = call.given(args, kwargs, torch.where(gone, lowest, mask), place=place)
        return args, kwargs

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
        with answered([self._twins[part] for part in answers], list(answers.values())):
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
        place = self._mask_place(number)
        return place is not None and not self._recurrent[number] and "sdpa" in self._kernel

    def _mask_place(self, number: int) -> str | int | None:
        """Where a block is passed no mask: a keyword, or a place among the arguments; ``None`` where it gets one."""
        call = self.run.calls[number]
        if call.kwargs.get(MASK, 0) is None:
            return MASK
        # The first two are the block itself and the stream.
        names = list(inspect.signature(type(self.blocks[number]).forward).parameters)[2:]
        passed = dict(zip(names, enumerate(call.args), strict=False))
        return passed[MASK][0] if MASK in passed and passed[MASK][1] is None else None

    def _masks(self, number: int) -> list[Any]:
        """What a block's attention is masked by."""
        call: BlockCall = self.run.calls[number]
        if call.cache is None:
            return [None]
        held = [*call.args, *call.kwargs.values()]
        masks = [one for one in held if is_square(one, self.length)]
        if masks or self._recurrent[number]:
            return masks or [EVERY]
        # Without a mask SDPA counts from the first position that it is given, so a triangle must go in.
        return [EVERY if self._is_bare(number) or "flash" in self._kernel else None]

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


def _lean(blocks: list[torch.nn.Module]) -> list[torch.nn.Module]:
    """The blocks without what traces hang on them, which costs small models time; as they are where they have hooks."""
    parts = [part for block in blocks for part in block.modules()]
    hooks = [hook for part in parts for hook in [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]]
    hooked = any(getattr(hook, "__module__", "") != RECORDER for hook in hooks)
    return blocks if hooked or any("_hf_hook" in vars(part) for part in parts) else bare(blocks, in_one_call=False)
