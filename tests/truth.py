"""What the model computes, from raw PyTorch hooks on a module that nnsight never touched."""

from collections.abc import Callable
from typing import Any

import torch

from belvedere.testing.row import Scaled


def logits_of(output: Any) -> torch.Tensor:
    """The logits in a model's output, which some models return as a tuple."""
    logits: torch.Tensor = output[0] if isinstance(output, tuple) else output.logits
    return logits


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


def contributions(
    module: torch.nn.Module, inputs: dict[str, Any], block: str, parts: tuple[str | Scaled, ...]
) -> list[torch.Tensor]:
    """What each part adds to a block's stream: its module's output, times the block's parameter where there is one."""
    names = [part.module if isinstance(part, Scaled) else part for part in parts]
    seen = hooked(module, inputs, block, *(f"{block}.{name}" for name in names))
    held = [first(seen[f"{block}.{name}"][2]) for name in names]
    return [
        scale(module.get_submodule(block), part, one, seen[block][1]) if isinstance(part, Scaled) else one
        for part, one in zip(parts, held, strict=True)
    ]


def scale(block: torch.nn.Module, part: Scaled, output: torch.Tensor, keywords: dict[str, Any]) -> torch.Tensor:
    """A module's output as its block adds it, by hand."""
    if part.masked and keywords[part.masked] is not None:
        output = keywords[part.masked][:, 0] * output
    return factor(block, part) * output


def factor(block: torch.nn.Module, part: Scaled) -> torch.Tensor:
    """What a block multiplies a module's output by."""
    held = block.get_parameter(part.parameter)
    return held.tanh() if part.gate else held


def input_of(module: torch.nn.Module, inputs: dict[str, Any], path: str) -> torch.Tensor:
    args, kwargs, _ = hooked(module, inputs, path)[path]
    return args[0] if args else next(iter(kwargs.values()))


def logits_with_added(
    module: torch.nn.Module,
    inputs: dict[str, Any],
    block: str,
    part: str | Scaled,
    change: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The logits where what a part adds is changed: a scaled one's product is made by hand, and its factor set to 1."""
    if not isinstance(part, Scaled):
        return logits_with(module, inputs, f"{block}.{part}", change)
    host = module.get_submodule(block)
    held, times = host.get_parameter(part.parameter), factor(host, part).detach().clone()
    before = held.detach().clone()
    try:
        with torch.no_grad():
            # The hyperbolic tangent of 100 is 1 to the last bit.
            held.fill_(100.0 if part.gate else 1.0)
        return logits_with(module, inputs, f"{block}.{part.module}", lambda output: change(times * output))
    finally:
        with torch.no_grad():
            held.copy_(before)


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
            logits = logits_of(module(**inputs))
    finally:
        handle.remove()
    return logits
