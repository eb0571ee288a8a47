"""The cells of a sweep over tower blocks: the tower from the patched block on, and the model on what it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.engine.observed import (
    BlockCall,
    first,
    forward,
    noting,
    noting_calls,
    observe,
    observe_entering,
    without_data,
)
from belvedere.experiments.engine.places import Places, Spots, by_prompt
from belvedere.experiments.engine.replay import Entry, Replay
from belvedere.experiments.engine.source import CLEAN, Source, busy
from belvedere.experiments.engine.trust import shapes_of
from belvedere.experiments.pairs import image_tokens
from belvedere.experiments.runs import joined, repeated
from belvedere.staged import Staged, State
from belvedere.staged.answers import answered

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["TowerCells"]


@dataclass(eq=False)
class TowerCells:
    """Cells whose value is of the tower's blocks.

    Args:
        model: The model.
        pair: The clean and the corrupt input.
        site: What is patched.
        groups: The positions of each cell.
        source: Where the new vectors come from.
        shares: Whether the text begins at the first image token, where that can be.

    Raises:
        InputError: The value is none that can be taken up in the middle.
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
        self.staged: Staged = self.model.vision.staged
        leaving = dict(enumerate(self.staged.blocks))
        sides = (self.pair.corrupt, self.pair.clean)
        with (
            self.places.noting() as self._outputs,
            noting(leaving) as left,
            _noting_inputs(leaving) as self._entering,
        ):
            run = observe(self.model, joined(*sides), [side.last for side in sides]) if self.shares else None
            logits = forward(self.model, joined(*sides), [side.last for side in sides]) if run is None else run.logits
        self._logits = logits.float()
        self.replay = None if run is None else Replay(self.model, self.pair.corrupt, run)
        if self.replay is not None and not len(image_tokens(self.model, self.pair.corrupt)):
            raise InputError("no token stands for a picture")
        self._leaving = {number: by_prompt(first(output)) for number, output in left.items()}
        self._states: dict[int, State] = {}
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
        return None if self.replay is None else self.replay.alone

    @lesson.setter
    def lesson(self, calls: list[BlockCall]) -> None:
        if self.replay is not None:
            self.replay.alone = calls

    @property
    def about(self) -> Any:
        """What else a trial of these cells depends on."""
        text = () if self.replay is None else self.replay.about
        return text, shapes_of([self._entering, self._leaving])

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The logits of the clean and of the corrupt run, ``[1, vocab]``."""
        logits = self._logits
        return logits[1:], logits[:1]

    @property
    def mixes(self) -> bool:
        """Only cells of one block share a forward."""
        return False

    def kind(self, layer: int) -> str:
        """What sets a block apart from others of the site."""
        return self.places.kind(layer)

    def is_idle(self, layer: int, group: tuple[int, ...]) -> bool:
        """Whether a patch cannot change the measured logits."""
        return layer > max(self._state(1).reads) or self._busy[layer].isdisjoint(group)

    def cut(self, layer: int, group: tuple[int, ...]) -> int:
        """A tower's rows see each other, so all of them run."""
        return 0

    def work(self, layer: int, cut: int) -> tuple[int, int]:
        """How many rows of how many blocks a cell runs."""
        return 1, len(self.staged.blocks) - layer + self.model.num_layers

    @torch.no_grad()
    def logits(self, cells: Sequence[tuple[int, tuple[int, ...]]]) -> Tensor:
        """The measured logits of some cells of one block, ``[cells, vocab]``."""
        layer = cells[0][0]
        state = self._state(len(cells))
        spots = Spots.of([group for _, group in cells], self.site.heads)
        stream = (self._entering if self.places.enters else self._leaving)[layer][0]
        patched = stream.repeat(len(cells), 1, 1)
        patched[spots.copies, spots.rows] = self._patched(layer, spots).to(patched)
        hidden = patched.reshape(state.hidden.shape)
        if self.places.enters:
            hidden = state.standard(state.calls[layer](self.staged.blocks[layer], state.native(hidden)))
        read = {number: self._corrupt(number, state) for number in state.reads if number < layer}
        if -1 in state.reads:
            read[-1] = state.hidden
        reached = replace(state, hidden=hidden, block=layer + 1, streams=read)
        encoding = repeated(self.pair.corrupt.encoding, len(cells))
        last = [self.pair.corrupt.last] * len(cells)
        with self.staged.answered(self.staged.encode(reached)):
            if self.replay is None:
                return forward(self.model, encoding, last).float()
            entering, added = observe_entering(self.model, encoding, last, self.replay.run)
        return self._read(self.replay, entering, added).float()

    def _read(self, replay: Replay, entering: Tensor, added: dict[int, Tensor]) -> Tensor:
        """The measured logits of some copies, by what enters the text blocks, ``[copies, vocab]``."""
        begun = int(image_tokens(self.model, self.pair.corrupt)[0])
        cut = replay.first_of(begun)
        rows = torch.arange(cut, replay.length).repeat(len(entering))
        copies = torch.arange(len(entering)).repeat_interleave(replay.length - cut)
        replay.added = added
        return replay.logits([Entry(0, entering[:, cut:], copies, rows)], cut)

    def vectors(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What is put at some positions, and what the corrupt run has there, ``[rows, width]``."""
        corrupt, clean = (held[rows.to(held.device)] for held in self._values(layer))
        return self.source.new(layer, rows.tolist(), clean).to(corrupt), corrupt

    def _patched(self, layer: int, spots: Spots) -> Tensor:
        """What the stream is at the patched positions, ``[rows, hidden]``."""
        new = self.vectors(layer, spots.units)[0].reshape(len(spots.rows), -1)
        if not self.places.inside:
            return new
        state, answers = self._state(1), self.places.answers(layer, self._outputs, spots, new)
        rows = spots.rows
        entering = self._entering[layer][0]
        with answered(list(answers), list(answers.values())):
            # Without what mixes positions, a block is of each row alone, so that any rows make a picture.
            output = state.calls[layer](
                self.staged.blocks[layer], state.native(entering[rows.to(entering.device)][None])
            )
        return state.standard(output)[0]

    def _values(self, layer: int) -> Tensor:
        """The site's value in the corrupt and in the clean run, ``[2, rows, width]``."""
        if self.places.inside:
            return self.places.values(layer, self._outputs)
        return (self._entering if self.places.enters else self._leaving)[layer]

    def _corrupt(self, number: int, state: State) -> Tensor:
        """What left a block in the corrupt run, for every copy."""
        times = state.hidden.numel() // self._leaving[number][0].numel()
        return self._leaving[number][:1].repeat(times, 1, 1).reshape(state.hidden.shape)

    def _state(self, times: int) -> State:
        """What the tower's blocks are called with for some copies of the corrupt pictures."""
        if times not in self._states:
            kept = {number: state for number, state in self._states.items() if number == 1}
            self._states = {**kept, times: self.staged.embed(**repeated(self.pair.corrupt.encoding, times))}
        return self._states[times]


@contextmanager
def _noting_inputs(modules: dict[int, torch.nn.Module]) -> Iterator[dict[int, Tensor]]:
    """The stream that enters some blocks while it holds, ``[2, rows, width]`` for two prompts."""
    held: dict[int, Tensor] = {}

    def note(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stream = args[0] if args else next(iter(kwargs.values()))
        held[number] = by_prompt(stream).clone()

    with ExitStack() as stack:
        for number, module in modules.items():
            hook = module.register_forward_pre_hook(
                lambda _module, args, kwargs, number=number: note(number, args, kwargs), with_kwargs=True
            )
            stack.callback(hook.remove)
        yield held
