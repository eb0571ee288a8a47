"""One plain forward of a prompt, with every text block watched: what it is called with, what enters and leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from belvedere.errors import InputError
from belvedere.experiments.engine.caches import Noted
from belvedere.staged.answers import standing_in

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = [
    "BlockCall",
    "Observed",
    "Reached",
    "forward",
    "noting",
    "noting_calls",
    "observe",
    "observe_added",
    "observe_entering",
    "text_blocks",
    "without_data",
]


@dataclass(frozen=True, eq=False)
class BlockCall:
    """What a block is called with beside the stream.

    Args:
        args: What follows the stream by position.
        kwargs: What is passed by keyword; a mapping as it was when the block was called.
        shared: The mappings themselves, which blocks may write to for later ones, by keyword.
        keyword: The name of the stream, where it is passed by one.
        cache: The keyword of the cache, or its place among the arguments; ``None`` where there is none.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shared: dict[str, Any]
    keyword: str = ""
    cache: str | int | None = None

    def given(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], held: Any, *, place: str | int | None = None
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with something else at a place among them, by default another cache at that of the cache."""
        args, kwargs, place = list(args), dict(kwargs), self.cache if place is None else place
        if isinstance(place, str):
            kwargs[place] = held
        elif place is not None:
            args[place] = held
        return args, kwargs


@dataclass(eq=False)
class Observed:
    """A run.

    Attributes:
        entering: The stream that enters each block, ``[prompts, positions, hidden]``.
        leaving: The stream that leaves each.
        calls: What each block is called with.
        seams: The blocks behind which the stack itself does something to the stream.
        noted: What the blocks left for later positions.
        in_tuple: Whether a block returns its stream in a tuple.
        logits: Of each prompt's measured position, ``[prompts, vocab]``.
    """

    entering: list[Tensor] = field(default_factory=list)
    leaving: list[Tensor] = field(default_factory=list)
    calls: list[BlockCall] = field(default_factory=list)
    seams: list[int] = field(default_factory=list)
    noted: Noted = field(default_factory=Noted)
    in_tuple: bool = False
    logits: Tensor = field(default_factory=lambda: torch.empty(0))


def without_data(held: Any) -> Any:
    """What a block is called with, as shapes alone."""
    if isinstance(held, Tensor):
        return torch.empty(held.shape, device="meta")
    if isinstance(held, BlockCall):
        return BlockCall(without_data(held.args), without_data(held.kwargs), {}, held.keyword, held.cache)
    if type(held) in (tuple, list):
        return type(held)(without_data(one) for one in held)
    if isinstance(held, Mapping):
        return {name: without_data(one) for name, one in held.items()}
    return None


def text_blocks(model: StandardizedTransformer) -> list[torch.nn.Module]:
    """The text model's blocks."""
    return [block._module for block in model.layers]


@torch.no_grad()
def observe(model: StandardizedTransformer, encoding: Mapping[str, Any], last: Sequence[int]) -> Observed:
    """Run some prompts, watch the text blocks, and measure at a position of each.

    Raises:
        InputError: The stack does not run its blocks once each and in order.
    """
    seen = Observed()
    blocks = text_blocks(model)

    def answer(number: int, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stream, call = split(args, kwargs)
        _in_order(number, len(seen.calls))
        seen.calls.append(call)
        if number and torch.equal(stream, seen.leaving[-1]):
            seen.entering.append(seen.leaving[-1])
        else:
            seen.entering.append(stream.clone())
            seen.seams += [number - 1] if number else []
        rest, named = call.given(call.args, kwargs, seen.noted)
        output = run(*(args[:1] if args else ()), *rest, **named)
        seen.in_tuple = isinstance(output, tuple)
        seen.leaving.append(first(output).clone())
        return output

    with standing_in(blocks, answer):
        seen.logits = forward(model, encoding, last)
    _in_order(len(blocks), len(seen.calls))
    return seen


@torch.no_grad()
def observe_added(
    model: StandardizedTransformer, encoding: Mapping[str, Any], last: Sequence[int], in_tuple: bool
) -> list[Tensor]:
    """What enters each text block where all of them return zeros: what the stack itself adds between two of them."""
    entering: list[Tensor] = []

    def answer(_number: int, _run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stream, _ = split(args, kwargs)
        entering.append(stream)
        nothing = torch.zeros_like(stream)
        return (nothing,) if in_tuple else nothing

    with standing_in(text_blocks(model), answer):
        forward(model, encoding, last)
    return entering


@torch.no_grad()
def observe_entering(
    model: StandardizedTransformer, encoding: Mapping[str, Any], last: Sequence[int], run: Observed
) -> tuple[Tensor, dict[int, Tensor]]:
    """What enters the first text block, and what the stack adds behind others, by block; no block runs.

    Args:
        model: The model.
        encoding: Some prompts.
        last: The measured position of each.
        run: A run of such a prompt, which tells where something is added.
    """
    found: dict[int, Tensor] = {}
    wanted = {number + 1 for number in run.seams} | {0}

    def answer(number: int, _run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stream, _ = split(args, kwargs)
        if number in wanted:
            found[number] = stream
        if number == max(wanted):
            raise Reached
        nothing = torch.zeros_like(stream)
        return (nothing,) if run.in_tuple else nothing

    with suppress(Reached), standing_in(text_blocks(model), answer):
        forward(model, encoding, last)
    return found.pop(0), {number - 1: added for number, added in found.items()}


class Reached(Exception):  # noqa: N818 - it is no error, it ends a forward that has come as far as is wanted
    """A forward has come to the block that was waited for."""


def forward(model: StandardizedTransformer, encoding: Mapping[str, Any], last: Sequence[int]) -> Tensor:
    """The logits of one position of each prompt, ``[prompts, vocab]``, by the model's own forward, outside of a trace.

    The head makes logits of these positions alone.
    """
    device = next(model.embed_tokens._module.parameters()).device
    given = {
        name: held.to(device) if isinstance(held, Tensor) and device.type != "meta" else held
        for name, held in encoding.items()
    }
    length = given["input_ids"].shape[1]

    def at_last(_number: int, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run(*(_at(held, last) if held.shape[1] == length else held for held in args), **kwargs)

    with standing_in([model.lm_head._module], at_last):
        logits = logits_of(model._module(**{**_defaults(model), **given}))
    return (_at(logits, last) if logits.shape[1] == length else logits)[:, -1]


def _at(held: Tensor, positions: Sequence[int]) -> Tensor:
    """One position of each row, ``[rows, 1, width]``."""
    return held[torch.arange(len(held)), torch.tensor(positions)][:, None]


def _defaults(model: StandardizedTransformer) -> dict[str, Any]:
    """What the wrapper's entry has the forward called with."""
    return {} if model.family.wrapper is None or model.text_only else dict(model.family.facts.forward)


def logits_of(output: Any) -> Tensor:
    """The logits of what a model returns."""
    held = getattr(output, "logits", None)
    if held is None:
        held = next(one for one in output if isinstance(one, Tensor) and one.ndim == 3)
    return held


def split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, BlockCall]:
    """The stream, and all else that a block is called with."""
    keyword = "" if args else next(iter(kwargs))
    stream = args[0] if args else kwargs[keyword]
    rest = {name: held for name, held in kwargs.items() if name != keyword}
    places: list[tuple[str | int, Any]] = [*enumerate(args[1:]), *rest.items()]
    cache = next((place for place, held in places if isinstance(held, Cache)), None)
    shared = {name: held for name, held in rest.items() if isinstance(held, Mapping)}
    kept = {**rest, **{name: copy(held) for name, held in shared.items()}}
    return stream, BlockCall(args[1:], kept, shared, keyword, cache)


def first(output: Any) -> Tensor:
    """The stream of what a block returns."""
    held: Tensor = output[0] if isinstance(output, (tuple, list)) else output
    return held


@contextmanager
def noting_calls(model: StandardizedTransformer) -> Iterator[list[BlockCall]]:
    """What the text blocks are called with while it holds, in order."""
    calls: list[BlockCall] = []
    with ExitStack() as stack:
        for block in text_blocks(model):
            hook = block.register_forward_pre_hook(
                lambda _module, args, kwargs: calls.append(split(args, kwargs)[1]), with_kwargs=True
            )
            stack.callback(hook.remove)
        yield calls


@contextmanager
def noting(modules: Mapping[Any, torch.nn.Module]) -> Iterator[dict[Any, Any]]:
    """What some modules return while it holds, by key."""
    held: dict[Any, Any] = {}
    with ExitStack() as stack:
        for key, module in modules.items():
            hook = module.register_forward_hook(lambda _m, _a, output, key=key: held.__setitem__(key, _kept(output)))
            stack.callback(hook.remove)
        yield held


def _kept(output: Any) -> Any:
    """What a module returned, as it was then."""
    if isinstance(output, Tensor):
        return output.clone()
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], Tensor):
        return type(output)([output[0].clone(), *output[1:]]) if type(output) in (tuple, list) else output
    return output


def _in_order(number: int, expected: int) -> None:
    if number != expected:
        raise InputError(f"the text blocks do not run once each and in order: block {number} came at place {expected}")
