"""A trace that begins in the middle: all that comes before is answered for by what it returned in a plain run.

Where a value is at an operation inside a forward, or is a whole attention pattern, only a trace can write it. A trace
need not run what the edit cannot change, though: no tower, where a text block is edited, and no block before that one.
These modules are answered for, and the stack's own code around them runs as ever: masks, rotations, what is added
between two blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor
from transformers.utils.generic import ModelOutput

from belvedere.components import NoVision
from belvedere.errors import InputError
from belvedere.experiments.engine.growth import Copies
from belvedere.experiments.engine.observed import (
    Observed,
    Reached,
    first,
    forward,
    noting_calls,
    observe,
    split,
    text_blocks,
    without_data,
)
from belvedere.experiments.engine.replay import Entry, Replay
from belvedere.experiments.engine.trial import agree
from belvedere.experiments.engine.trust import known, shapes_of, state_of
from belvedere.experiments.hooks import hooked_around
from belvedere.experiments.pairs import image_tokens
from belvedere.experiments.runs import Side, joined, next_logits, repeated
from belvedere.staged.answers import answered, standing_in

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["FEW", "Resumed", "resumed"]

#: For so few cells a trial costs more than it spares.
FEW = 2
#: For so few the blocks behind an edit are run as they are.
SOME = 8
#: What a stream is multiplied by in a trial.
EDITED = 1.1
BEHIND = "; what follows by replays"


class Resumed:
    """A prompt's run that traces take up at any block of a stack.

    Args:
        model: The model.
        side: The prompt.
        stack: ``"text"`` or ``"vision"``.
        starts: The blocks at which it is to be taken up.
        plain: Runs the prompt as it is, for the measured logits; by default in a trace of its own.
        stops: The blocks up to which cells are edited, where what follows is to be replayed if it can be.

    Attributes:
        ends: The measured logits of the plain run, ``[1, vocab]``.
        calls: What the text blocks were called with.
        because: Why nothing is replayed, where that was asked for.
        replay: Runs what follows an edited stretch of blocks; ``None`` where the trace does.

    Raises:
        InputError: A run that is taken up there is not the plain one.
    """

    def __init__(
        self,
        model: StandardizedTransformer,
        side: Side,
        stack: str,
        starts: Iterable[int],
        plain: Callable[[], Tensor] | None = None,
        stops: Sequence[int] = (),
    ) -> None:
        model.dispatch()
        self.model, self.side, self.stack = model, side, stack
        self.blocks = text_blocks(model) if stack == "text" else [one._module for one in model.vision.layers]
        self._before = _before_text(model) if stack == "text" else {}
        numbered = dict[Any, torch.nn.Module](enumerate(self.blocks))
        with noting_calls(model) as self.calls, _noting({**self._before, **numbered}) as self._one:
            self.ends = next_logits(model, side) if plain is None else plain()
        grows = self._before if stack == "text" else numbered
        grows = {key: module for key, module in grows.items() if key in self._one}
        with _noting(grows) as self._two:
            if grows:
                _without_text(model, side)
        self.replay: Replay | None = None
        self.because = ""
        starts = sorted(set(starts))
        self._check(starts)
        before = [stop for stop in stops if stop < len(self.blocks) or stack == "vision"]
        if before:
            self.replay = self._followed(starts[0] if stack == "vision" else min(before) - 1, min(before))

    @property
    def way(self) -> str:
        """What running cells so is called."""
        begun = "block" if self.stack == "text" else "tower block"
        return f"from the first changed {begun}, in a trace{'' if self.replay is None else BEHIND}"

    @contextmanager
    def at(self, start: int, copies: int) -> Iterator[None]:
        """While it holds, the model runs from a block on, for some copies of the prompt.

        Args:
            start: The block.
            copies: How many copies.
        """
        grown = Copies(copies, -1)
        answers = {
            module: _copied(grown.of(self._one[key], self._two[key]))
            for key, module in self._before.items()
            if key in self._one
        }
        with ExitStack() as stack:
            stack.enter_context(answered(list(answers), list(answers.values())))
            if self.stack == "vision":
                outputs = [_copied(grown.of(self._one[number], self._two[number])) for number in range(start)]
                stack.enter_context(answered(self.blocks[:start], outputs))
            else:
                stack.enter_context(standing_in(self.blocks[:start], self._passing(start, copies)))
            yield

    @torch.no_grad()
    def logits(self, edit: Callable[[], None], copies: int, start: int, stop: int, position: int) -> Tensor:
        """The measured logits of some copies of the prompt, each edited, ``[copies, vocab]``.

        Args:
            edit: Makes the edits, inside a trace.
            copies: How many copies.
            start: The first block that is edited.
            stop: The block before which the edits end.
            position: The first of the text's positions that they change; in the tower, of no account.
        """
        if self.replay is None or (self.stack == "text" and stop == len(self.blocks)):
            with self.at(start, copies):
                return self._traced(edit, copies)
        return self._replayed(self.replay, edit, copies, start, stop, position)

    def _traced(self, edit: Callable[[], None], copies: int) -> Tensor:
        with self.model.trace(**repeated(self.side.encoding, copies)):
            edit()
            logits: Tensor = nnsight.save(self.model.logits[:, self.side.last].float())
        return logits

    def _replayed(
        self, replay: Replay, edit: Callable[[], None], copies: int, start: int, stop: int, position: int
    ) -> Tensor:
        """By a trace up to the end of the edits, and a replay of what follows."""
        tower = self.stack == "vision"
        entering = 0 if tower else stop
        if tower:
            cut = replay.first_of(int(image_tokens(self.model, self.side)[0]))
        else:
            cut = replay.last_cuts(start)[min(position, self.side.last)]
        encoding = repeated(self.side.encoding, copies)
        with (
            self.at(start, copies),
            _ending(self.model, entering, replay.run) as found,
            self.model.trace(**encoding),
        ):
            edit()
        hidden = found.pop(entering)[:, cut:]
        if tower:
            replay.added = {number - 1: added for number, added in found.items()}
        rows = torch.arange(cut, replay.length).repeat(copies)
        each = torch.arange(copies).repeat_interleave(replay.length - cut)
        return replay.logits([Entry(entering, hidden, each, rows)], cut).float()

    def _followed(self, start: int, stop: int) -> Replay | None:
        """What runs the blocks behind an edit, once it agrees with a trace in which a stream is edited."""
        model, side = self.model, self.side
        for shares in (True, False):
            # Whatever a stack does that was not foreseen, the trace itself is right.
            try:
                replay = Replay(model, side, observe(model, joined(side, side), [side.last] * 2))
                if any(call.shared for call in replay.run.calls):
                    raise InputError("an edited block may leave something for others behind the edit")
                replay.alone, replay.shares = [without_data(call) for call in self.calls], shares
                about = ("followed", self.stack, start, stop, replay.about, state_of(model))
                if about not in known(model):
                    known(model)[about] = self._agrees(replay, start, stop)
                if known(model)[about]:
                    return replay
                raise InputError("a trial by a replay did not agree with a trace")
            except Exception as error:
                self.because = f"{type(error).__name__}: {error}"
        return None

    @torch.no_grad()
    def _agrees(self, replay: Replay, start: int, stop: int) -> bool:
        """Whether a replay is what a trace does, where half of the text, or the whole tower, is edited at a block."""
        tower, position = self.stack == "vision", self.side.length // 2
        block = (self.model.vision.layers if tower else self.model.layers)[start]

        def edit() -> None:
            stream = block.layer_output.clone()
            stream[:, 0 if tower else position :] *= EDITED
            block.layer_output = stream

        with self.at(start, 2):
            theirs = self._traced(edit, 2)
        ours = self._replayed(replay, edit, 2, start, stop, position)
        return agree(ours, theirs, next(self.model.embed_tokens._module.parameters()).dtype)

    def _passing(self, start: int, copies: int) -> Callable[..., Any]:
        """What text blocks before one return: the last of them its stream, and the others what they are given."""
        # A stack may leave blocks out.
        last = max((number for number in range(start) if number in self._one), default=-1)

        def answer(number: int, _run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            left = self._one[number]
            if number == last:
                # What blocks before left for later ones in a mapping that all are passed.
                for name, held in split(args, kwargs)[1].shared.items():
                    _complete(held, self.calls[start].kwargs[name], copies)
                stream = first(left).expand(copies, -1, -1).clone()
            else:
                stream, _ = split(args, kwargs)
            return type(left)([stream, *left[1:]]) if isinstance(left, (tuple, list)) else stream

        return answer

    def _check(self, starts: Sequence[int]) -> None:
        """Try the last block of each kind, before which the most is answered for.

        Raises:
            InputError: The logits are others than the plain run's.
        """
        dtype = next(self.model.embed_tokens._module.parameters()).dtype
        shapes, state = shapes_of(self.side.encoding), state_of(self.model)
        for kind, start in {_traits(self.blocks[start]): start for start in starts}.items():
            about = ("resumed", self.stack, kind, start, shapes, state)
            if about in known(self.model):
                continue
            with torch.no_grad(), self.at(start, 2), self.model.trace(**repeated(self.side.encoding, 2)):
                logits = nnsight.save(self.model.logits[:, self.side.last].float())
            if not agree(logits, self.ends.expand(2, -1), dtype):
                raise InputError(f"a run that was taken up at block {start} did not agree with a whole forward")
            known(self.model)[about] = True


def resumed(
    model: StandardizedTransformer, side: Side, stack: str, starts: Sequence[int], stops: Sequence[int] = ()
) -> tuple[Resumed | None, Tensor, dict[str, str]]:
    """A run that can be taken up where cells begin, if it can be and is worth it.

    Args:
        model: The model.
        side: The prompt.
        stack: ``"text"`` or ``"vision"``.
        starts: The block at which each cell begins.
        stops: The block before which its edits end, where what follows is to be replayed if it can be.

    Returns:
        The run, or ``None`` for whole forwards; the measured logits of the plain one; and how the cells are run, with
        the reason where that is by whole forwards.
    """
    if len(starts) <= FEW:
        because = f"of {len(starts)} cell(s) each is run once, which costs no more than a trial"
        return None, next_logits(model, side), {"cells": "whole forwards", "because": because}
    hooked = hooked_around(model)
    if hooked:
        because = f"a hook that is not Belvedere's is on {hooked}"
        return None, next_logits(model, side), {"cells": "whole forwards", "because": because}
    try:
        made = Resumed(model, side, stack, starts, stops=stops if len(stops) > SOME else ())
    except Exception as error:
        # Whatever a model does that was not foreseen, whole forwards are right.
        because = f"{type(error).__name__}: {error}"
        return None, next_logits(model, side), {"cells": "whole forwards", "because": because}
    return made, made.ends, {"cells": made.way, **({"because": made.because} if made.because else {})}


def _before_text(model: StandardizedTransformer) -> dict[Any, torch.nn.Module]:
    """The modules that run ahead of the text blocks and are worth answering for."""
    if isinstance(model.vision, NoVision):
        return {}
    found = {"tower": model.vision._module}
    if model.family.facts.projector:
        found["projector"] = model.projector._module
    inside = set(found["tower"].modules())
    return {name: module for name, module in found.items() if name == "tower" or module not in inside}


@torch.no_grad()
def _without_text(model: StandardizedTransformer, side: Side) -> None:
    """Run two copies of a prompt, with no text block among what is run."""

    def answer(_number: int, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise Reached

    with suppress(Reached), standing_in(text_blocks(model)[:1], answer):
        forward(model, repeated(side.encoding, 2), [side.last] * 2)


def _complete(mapping: Any, noted: Mapping[Any, Any], copies: int) -> None:
    """Put what was noted of one prompt into a mapping where it lacks it, for some copies."""

    def spread(held: Any) -> Any:
        if isinstance(held, Tensor):
            return held.detach().expand(copies, *held.shape[1:])
        return type(held)(spread(one) for one in held) if type(held) in (tuple, list) else held

    for key, held in noted.items():
        if key not in mapping:
            mapping[key] = spread(held)


@contextmanager
def _ending(model: StandardizedTransformer, entering: int, run: Observed) -> Iterator[dict[int, Tensor]]:
    """While it holds, text blocks from one on do not run: what enters it is noted, and what is added behind others."""
    found: dict[int, Tensor] = {}
    wanted = {entering, *(number + 1 for number in run.seams if number >= entering)}

    def answer(number: int, _run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stream, _ = split(args, kwargs)
        if number + entering in wanted:
            found[number + entering] = stream.clone()
        nothing = torch.zeros_like(stream)
        return (nothing,) if run.in_tuple else nothing

    def head(_number: int, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run(args[0][:, :1], *args[1:], **kwargs)

    with standing_in(text_blocks(model)[entering:], answer), standing_in([model.lm_head._module], head):
        yield found


@contextmanager
def _noting(modules: Mapping[Any, torch.nn.Module]) -> Iterator[dict[Any, Any]]:
    """What some modules return while it holds, by key, as it was then.

    Raises:
        InputError: From within, where one of them is called more than once.
    """
    held: dict[Any, Any] = {}

    def note(key: Any, module: torch.nn.Module, output: Any) -> None:
        if key in held:
            raise InputError(f"{type(module).__name__} is called more than once in a forward")
        held[key] = _copied(output)

    with ExitStack() as stack:
        for key, module in modules.items():
            hook = module.register_forward_hook(lambda module, _args, output, key=key: note(key, module, output))
            stack.callback(hook.remove)
        yield held


def _copied(output: Any) -> Any:
    """What a module returned, with no tensor that anyone else holds."""
    if isinstance(output, Tensor):
        return output.detach().clone()
    if isinstance(output, ModelOutput):
        return type(output)(**{name: _copied(held) for name, held in output.items()})
    if isinstance(output, Mapping):
        return {name: _copied(held) for name, held in output.items()}
    if type(output) in (tuple, list):
        return type(output)(_copied(held) for held in output)
    return output


def _traits(block: torch.nn.Module) -> tuple[Any, ...]:
    """What sets a block apart from others: its parts, their switches, and its weights' shapes."""
    parts = tuple(
        (type(part), *((name, held) for name, held in sorted(vars(part).items()) if isinstance(held, (bool, str))))
        for part in block.modules()
    )
    return parts, tuple((name, tuple(held.shape)) for name, held in block.named_parameters())
