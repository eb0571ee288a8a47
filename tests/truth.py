"""What the model computes, from raw PyTorch hooks on a module that nnsight never touched."""

from collections.abc import Callable
from typing import Any

import torch


def first(held: Any) -> torch.Tensor:
    return held[0] if isinstance(held, tuple) else held


def hooked(module: torch.nn.Module, inputs: dict[str, Any], *paths: str) -> dict[str, Any]:
    """``{path: (args, kwargs, output)}`` of each module's first call in one plain forward."""
    seen: dict[str, Any] = {}

    def watch(path: str) -> Callable[..., None]:
        def hook(_: Any, args: Any, kwargs: Any, output: Any) -> None:
            seen.setdefault(path, (args, kwargs, output))

        return hook

    handles = [module.get_submodule(path).register_forward_hook(watch(path), with_kwargs=True) for path in paths]
    try:
        with torch.no_grad():
            module(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def output_of(module: torch.nn.Module, inputs: dict[str, Any], path: str) -> torch.Tensor:
    return first(hooked(module, inputs, path)[path][2])


def input_of(module: torch.nn.Module, inputs: dict[str, Any], path: str) -> torch.Tensor:
    args, kwargs, _ = hooked(module, inputs, path)[path]
    return args[0] if args else kwargs["hidden_states"]


def logits_with(
    module: torch.nn.Module, inputs: dict[str, Any], path: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The logits of a plain forward in which one module's output is changed."""

    def hook(_: Any, args: Any, output: Any) -> Any:
        changed = change(first(output).clone())
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    # transformers records hidden states by hooks of its own, which must see the change too.
    handle = module.get_submodule(path).register_forward_hook(hook, prepend=True)
    try:
        with torch.no_grad():
            logits: torch.Tensor = module(**inputs).logits
    finally:
        handle.remove()
    return logits
