"""What a plain forward computes, seen by PyTorch hooks of its own and at transformers' attention interface.

Nothing is kept but fingerprints of bits, so that every block of a large model can be watched in one forward.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["Passing", "Print", "entering", "fingerprint", "first", "listening", "prints", "watching"]

#: The elements of a tensor that are taken into account at a time.
CHUNK = 1 << 22
#: Odd numbers whose products, cut to 64 bits, scatter what they multiply.
SCATTER, PLACE = -7046029254386353131, -4417276706812531889
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Print:
    """A tensor's bits in three numbers: how many elements, which ones in any order, and which ones in this order."""

    count: int
    elements: int
    order: int

    def __add__(self, other: Print) -> Print:
        return Print(self.count + other.count, _cut(self.elements + other.elements), 0)


def fingerprint(held: Tensor) -> Print:
    """A tensor's `Print`. Other bits give other numbers but for one case in 2 to the 60th or so."""
    flat = held.detach().reshape(-1).contiguous()
    bits = flat.view(INTEGERS[flat.element_size()])
    elements = order = 0
    for start in range(0, len(bits), CHUNK):
        mixed = _mixed(bits[start : start + CHUNK].to(torch.int64) + 1)
        elements = _cut(elements + int(mixed.sum()))
        order = _cut(order * SCATTER + int(mixed.mul_(_places(mixed.device)[: len(mixed)]).sum()))
    return Print(len(bits), elements, order)


def _mixed(numbers: Tensor) -> Tensor:
    """Whole numbers scattered over 64 bits, in place."""
    numbers.mul_(SCATTER)
    numbers.bitwise_xor_(numbers >> 29).mul_(PLACE)
    return numbers.bitwise_xor_(numbers >> 32)


@cache
def _places(device: torch.device) -> Tensor:
    """An odd number for each place among `CHUNK`."""
    return 2 * _mixed(torch.arange(1, CHUNK + 1, device=device)) + 1


def _cut(number: int) -> int:
    """A whole number as 64 bits hold it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def prints(held: Any) -> tuple[Print, ...]:
    """The prints of a tensor, or of the tensors of a list."""
    return (fingerprint(held),) if isinstance(held, Tensor) else tuple(fingerprint(one) for one in held)


def first(output: Any) -> Tensor:
    """The stream of what a block returns."""
    if isinstance(output, Tensor):
        return output
    held: Tensor = output[0] if isinstance(output, (tuple, list)) else next(iter(output.values()))
    return held


def entering(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """The stream of what a block is called with."""
    held: Tensor = args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values())))
    return held


@contextmanager
def watching(
    inputs: Mapping[Hashable, tuple[torch.nn.Module, Callable[[Any], Any]]],
    outputs: Mapping[Hashable, tuple[torch.nn.Module, Callable[[Any], Any]]],
    keep: Callable[[Any], Any],
) -> Iterator[dict[Hashable, Any]]:
    """While it holds, what modules are called with and return at their first call, by key.

    Args:
        inputs: For each key a module, and what to take of ``(args, kwargs)``.
        outputs: For each key a module, and what to take of its output.
        keep: What to keep of it.
    """
    seen: dict[Hashable, Any] = {}

    def before(key: Hashable, take: Callable[[Any], Any]) -> Callable[..., None]:
        def hook(_: Any, args: Any, kwargs: Any) -> None:
            if key not in seen:
                seen[key] = keep(take((args, kwargs)))

        return hook

    def after(key: Hashable, take: Callable[[Any], Any]) -> Callable[..., None]:
        def hook(_: Any, _args: Any, output: Any) -> None:
            if key not in seen:
                seen[key] = keep(take(output))

        return hook

    with ExitStack() as stack:
        for key, (module, take) in inputs.items():
            stack.callback(module.register_forward_pre_hook(before(key, take), with_kwargs=True).remove)
        for key, (module, take) in outputs.items():
            stack.callback(module.register_forward_hook(after(key, take)).remove)
        yield seen


#: The values of an attention, in the order in which its interface has them: three arguments and the first result.
INTERFACE = ("attention_queries", "attention_keys", "attention_values", "attention_head_outputs")


@contextmanager
def listening() -> Iterator[dict[tuple[int, str], Print]]:
    """While it holds, what passes transformers' attention interface: prints by the module's identity and the value.

    A module that calls it several times, once for each picture, has the sum of their prints: the elements of all.
    """
    from transformers.modeling_utils import AttentionInterface

    seen: dict[tuple[int, str], Print] = {}
    own = AttentionInterface.get_interface

    def note(module: Any, name: str, held: Tensor) -> None:
        key, made = (id(module), name), fingerprint(held)
        seen[key] = seen[key] + made if key in seen else made

    def get_interface(self: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        run = own(self, *args, **kwargs)

        def heard(module: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> Any:
            for name, held in zip(INTERFACE, (query, key, value), strict=False):
                note(module, name, held)
            output = run(module, query, key, value, *rest, **named)
            note(module, INTERFACE[-1], output[0])
            return output

        return heard

    setattr(AttentionInterface, "get_interface", get_interface)  # noqa: B010 - a type checker takes no method
    try:
        yield seen
    finally:
        setattr(AttentionInterface, "get_interface", own)  # noqa: B010 - as above


class Passing(TorchFunctionMode):
    """Notes what passes the operations inside of some modules' forwards: the elements of tensors of certain sizes.

    Args:
        wanted: For each module the numbers of elements of the tensors to note.
    """

    def __init__(self, wanted: Mapping[torch.nn.Module, set[int]]) -> None:
        super().__init__()
        self._wanted, self._inside = wanted, dict.fromkeys(wanted, 0)
        self._hooks = ExitStack()
        #: For each module ``(count, elements)`` of what passed.
        self.seen: dict[torch.nn.Module, set[tuple[int, int]]] = {module: set() for module in wanted}

    def __enter__(self) -> Passing:
        for module in self._wanted:
            self._hooks.callback(module.register_forward_pre_hook(self._enter).remove)
            self._hooks.callback(module.register_forward_hook(self._leave).remove)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._hooks.close()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        self._inside[module] += 1

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        self._inside[module] -= 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # What an operation is given is noted before it may write over it.
        self._note(args)
        output = func(*args, **(kwargs or {}))
        self._note(output if isinstance(output, (tuple, list)) else (output,))
        return output

    def _note(self, held: Any) -> None:
        inside = [module for module, times in self._inside.items() if times]
        for one in held if inside else ():
            if isinstance(one, Tensor):
                for module in inside:
                    if one.numel() in self._wanted[module]:
                        made = fingerprint(one)
                        self.seen[module].add((made.count, made.elements))
