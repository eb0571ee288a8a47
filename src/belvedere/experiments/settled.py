"""The state in which every experiment finds the model, and which it leaves as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from belvedere.errors import InputError
from belvedere.experiments.hooks import refuse_unseen

__all__ = ["experiment", "settled"]

P = ParamSpec("P")
R = TypeVar("R")


def experiment(run: Callable[P, R]) -> Callable[P, R]:
    """Run a function with its model, the first argument, settled."""

    @wraps(run)
    def settle(*args: P.args, **kwargs: P.kwargs) -> R:
        with settled(args[0] if args else kwargs.get("model")):
            return run(*args, **kwargs)

    return settle


@contextmanager
def settled(model: Any) -> Iterator[None]:
    """While it holds, a model runs without dropout, and gradients can be had; each part is back in its mode behind it.

    Raises:
        InputError: It is no `StandardizedTransformer`.
    """
    from belvedere.standardized import StandardizedTransformer

    if not isinstance(model, StandardizedTransformer):
        raise InputError(
            f"the model is a {type(model).__name__}; pass a StandardizedTransformer, which takes a checkpoint's name "
            "or a transformers model"
        )
    refuse_unseen(model._module)
    training = [part for part in model._module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        with _outside_of_inference() if torch.is_inference_mode_enabled() else nullcontext():
            yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def _outside_of_inference() -> Iterator[None]:
    """Tensors that are made in inference mode are in no graph, whatever is said later."""
    with torch.inference_mode(False), torch.no_grad():
        yield
