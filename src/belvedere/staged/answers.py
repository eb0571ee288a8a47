"""Modules that are answered for, while the model around them runs.

A module's forward is set aside and something else returns in its place; the model's own code around it runs as ever.
That is how a tower's grid-derived tensors are learned (its blocks are answered by what notes their calls), how what
follows its blocks is run without them (they are answered by streams), and how one may run a whole model on a tower's
streams that were made elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

__all__ = ["Answer", "answered", "standing_in"]

#: What stands in for a module: called with its number, its own forward, and the arguments of the call.
Answer = Callable[[int, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

#: The module whose hooks hand a wrapper the streams that it asks for; they must see an answer as they see an output.
RECORDER = "transformers.utils.output_capturing"
NOTHING = object()


@contextmanager
def answered(modules: Sequence[torch.nn.Module], outputs: Sequence[Any], *, most: int | None = None) -> Iterator[None]:
    """While it holds, each module returns a given output in the place of its own, and does not run.

    ::

        with answered(blocks, streams):
            logits = module(**encoding).logits  # the model's own forward, on those streams

    Whoever calls a module, and the hooks by which transformers hands out hidden states, see the answer as the module's
    output. Other hooks of the module are silent: what they do to it is in the output already.

    Args:
        modules: Modules of one model.
        outputs: What each returns, in the form in which it returns it itself (a tensor, or a tuple). ``None`` where
            nobody reads it: a tensor shaped as the module's input whose every entry is NaN, so that a read shows.
        most: How often each may be called meanwhile; any number of times by default.

    Raises:
        RuntimeError: From the module that was called once more.
    """
    calls = [0] * len(modules)
    given = [output for output in outputs if output is not None]
    in_tuple = any(isinstance(output, tuple) for output in given)

    def answer(number: int, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = outputs[number]
        calls[number] += 1
        if most is not None and calls[number] > most:
            raise RuntimeError(
                f"{type(modules[number]).__name__} number {number} is called more than {most} time(s) in a forward, so "
                "one output cannot answer for it; read its values inside a trace, by `call(n)`"
            )
        if output is not None:
            return output
        unread = nan_like(args[0] if args else next(iter(kwargs.values())))
        return (unread,) if in_tuple else unread

    with standing_in(modules, answer):
        yield


@contextmanager
def standing_in(modules: Sequence[torch.nn.Module], answer: Answer) -> Iterator[None]:
    """While it holds, a function answers for each module; every forward and hook is back behind it, whatever happens.

    Args:
        modules: Modules of one model.
        answer: ``answer(number, forward, args, kwargs)`` gives what the module of that number returns for that call;
            ``forward`` is its own.
    """
    with ExitStack() as stack:
        for number, module in enumerate(modules):
            stack.enter_context(_in_place_of(module, partial(answer, number)))
        yield


@contextmanager
def _in_place_of(module: torch.nn.Module, answer: Callable[..., Any]) -> Iterator[None]:
    """One module answered for. nnsight keeps a forward of its own on the instance, so that slot is what is put back."""
    before, forward = vars(module).get("forward", NOTHING), module.forward
    with _silent(module._forward_pre_hooks), _silent(module._forward_hooks):
        vars(module)["forward"] = lambda *args, **kwargs: answer(forward, args, kwargs)
        try:
            yield
        finally:
            if before is NOTHING:
                del vars(module)["forward"]
            else:
                vars(module)["forward"] = before


@contextmanager
def _silent(hooks: dict[int, Any]) -> Iterator[None]:
    """Hooks set aside, but for transformers' recorder; those that it adds meanwhile stay, behind the others."""
    before = dict(hooks)
    for key, hook in before.items():
        if getattr(hook, "__module__", "") != RECORDER:
            del hooks[key]
    try:
        yield
    finally:
        added = {key: hook for key, hook in hooks.items() if key not in before}
        hooks.clear()
        hooks.update({**before, **added})


def nan_like(held: Tensor) -> Tensor:
    """NaN in the shape of a tensor, which takes no memory."""
    return held.new_full((), torch.nan).expand_as(held)
