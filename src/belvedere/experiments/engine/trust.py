"""What a trial has shown holds for other inputs of the same shapes, as long as nothing of the model is another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["known", "shapes_of", "state_of"]

_KNOWN: WeakKeyDictionary[torch.nn.Module, dict[Any, Any]] = WeakKeyDictionary()


def known(model: StandardizedTransformer) -> dict[Any, Any]:
    """What trials of a model have taught, by what they were about."""
    return _KNOWN.setdefault(model._module, {})


def state_of(model: StandardizedTransformer) -> tuple[Any, ...]:
    """What changes where a module is replaced, hooked, edited, or put into another mode or kernel."""
    parts = tuple(
        (
            id(part),
            part.training,
            tuple(part._forward_hooks),
            tuple(part._forward_pre_hooks),
            id(vars(part).get("forward")),
        )
        for part in model._module.modules()
    )
    kernels = tuple(str(getattr(one, "_attn_implementation", "")) for one in (model._module.config, model.config))
    first = next(model._module.parameters())
    return parts, kernels, tuple(id(edit) for edit in model._edits), first.dtype, first.device


def shapes_of(held: Any) -> Any:
    """A tree with the shape of each tensor in its place."""
    if isinstance(held, Tensor):
        return tuple(held.shape), held.dtype
    if isinstance(held, Mapping):
        return tuple((name, shapes_of(one)) for name, one in held.items())
    if isinstance(held, (tuple, list)):
        return tuple(shapes_of(one) for one in held)
    return held if isinstance(held, (str, int, float, bool)) or held is None else type(held)
