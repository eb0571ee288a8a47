"""Gradients at values that are views taken inside a trace.

Such a view is not in the graph; its base is. nnsight reads the gradient of a marked view off its base's, by the view's
own strides, and so the base's gradient must be laid out as the base is, which autograd does not promise.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["in_graph", "is_one_of_many", "is_weight", "reachable"]


def reachable(view: Tensor) -> Tensor:
    """Mark a view, so that nnsight asks its base for the gradient, laid out as the base is."""
    base = view._base
    if base is None:
        return view
    view._nnsight_batch = True  # type: ignore[attr-defined]
    if base.grad_fn is not None:
        shape, stride = base.shape, base.stride()
        base.register_hook(lambda gradient: _laid_out(gradient, shape, stride))  # type: ignore[no-untyped-call]
    return view


def _laid_out(gradient: Tensor, shape: torch.Size, stride: tuple[int, ...]) -> Tensor:
    if gradient.stride() == stride:
        return gradient
    return torch.empty_strided(shape, stride, dtype=gradient.dtype, device=gradient.device).copy_(gradient)


def in_graph(held: object) -> bool:
    """Whether a tensor has a gradient to come."""
    return isinstance(held, Tensor) and held.requires_grad


def is_weight(held: object) -> bool:
    """Whether a tensor is a parameter itself, or a view of one, so that an edit in place would change the model."""
    if not isinstance(held, Tensor):
        return False
    return isinstance(held if held._base is None else held._base, torch.nn.Parameter)


def is_one_of_many(held: object) -> bool:
    """Whether a tensor is a view that one call returned beside others, which autograd lets nobody edit in place."""
    if not (isinstance(held, Tensor) and held.requires_grad and held._is_view()):
        return False
    meta = torch._C._autograd._get_creation_meta(held)
    return bool(meta == torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE)
