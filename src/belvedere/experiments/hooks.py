"""Hooks that someone else put on a model: where they are, and which of them no trace sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from belvedere.components import NoVision
from belvedere.errors import InputError
from belvedere.staged.answers import RECORDER

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["hooked_around", "is_hooked", "refuse_unseen"]

#: Whose hooks are part of how a model is run.
OWN = ("belvedere.", "nnsight.", RECORDER)


def is_hooked(module: torch.nn.Module, *, behind: bool = False) -> bool:
    """Whether a module has a hook of someone else's.

    Args:
        module: The module.
        behind: Count only hooks that run behind its forward.
    """
    hooks: list[Callable[..., Any]] = list(module._forward_hooks.values())
    hooks += [] if behind else list(module._forward_pre_hooks.values())
    return any(not (getattr(hook, "__module__", None) or "").startswith(OWN) for hook in hooks)


def hooked_around(model: StandardizedTransformer) -> str:
    """The first module with a hook among the blocks, what they are in, and the head; empty where none has one.

    What runs blocks by themselves passes these hooks by; hooks inside of the blocks run with them.
    """
    blocks = {id(module) for module in _blocks(model)}
    inside = tuple(name + "." for name, part in model._module.named_modules() if id(part) in blocks)
    for name, part in model._module.named_modules():
        is_around = id(part) in blocks or not name or any(block.startswith(name + ".") for block in inside)
        if is_around and is_hooked(part):
            return f"{name or 'the whole model'} ({type(part).__name__})"
    return ""


def refuse_unseen(module: torch.nn.Module) -> None:
    """Refuse a model whose output is changed behind its forward, which is what a trace reads.

    Raises:
        InputError: It has such a hook.
    """
    if is_hooked(module, behind=True):
        raise InputError(
            "the whole model has a forward hook that is not Belvedere's, and no trace sees what that makes of the "
            "output; remove it while the experiment runs, or put it on the head (lm_head)"
        )


def _blocks(model: StandardizedTransformer) -> Iterator[torch.nn.Module]:
    yield from (block._module for block in model.layers)
    yield model.lm_head._module
    if not isinstance(model.vision, NoVision):
        yield from (block._module for block in model.vision.layers)
