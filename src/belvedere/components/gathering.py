"""What is gathered over a stack: reasons, notes, and the places where image information enters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere.components.layer import MIXERS
from belvedere.components.listing import Support
from belvedere.components.standard import Standard

if TYPE_CHECKING:
    from belvedere.components.stack import Stack
    from belvedere.descriptors import Value

__all__ = ["Entry", "Reasons", "block_parts", "block_support", "block_values", "stack_support"]

#: A value's support: ``None`` where it reads, a reason, or ``{block: reason}`` where the blocks differ.
Reasons = dict[str, Any]


@dataclass(eq=False)
class Entry:
    """A place where image information enters the text model.

    Args:
        host: The envoy that has the value.
        found: The value's descriptor.
    """

    host: Standard
    found: Value[Any]

    @property
    def path(self) -> str:
        """The standard path of the value, such as ``vision.image_features``."""
        return self.found.path(self.host)

    @property
    def value(self) -> Any:
        """The value itself, inside a trace; assign to write it."""
        return getattr(self.host, str(self.found.name))

    @value.setter
    def value(self, written: Any) -> None:
        setattr(self.host, str(self.found.name), written)

    def __repr__(self) -> str:
        return f"{self.path}: {self.found.description}"


def block_parts(block: Standard) -> list[Standard]:
    """A block and its parts, in the order of the forward."""
    parts = [vars(block).get(name) for name in (*MIXERS, "mlp")]
    return [block, *(part for part in parts if isinstance(part, Standard))]


def block_values(block: Standard) -> dict[str, tuple[Standard, Value[Any]]]:
    """Each value of one block and its parts, by value name: the envoy that it is read from, and its descriptor."""
    return {name: (part, found) for part in block_parts(block) for name, found in part.values().items()}


def block_support(block: Standard, *, notes: bool = False) -> dict[str, str | None]:
    """Each value of one block and its parts, by value name, in the order of the forward."""
    rows: dict[str, str | None] = {}
    for part in block_parts(block):
        rows |= part.support(notes=notes)
    first, last = "layer_input", ("layer_output", "deepstack_output")
    ordered = [first, *(name for name in rows if name not in (first, *last)), *last]
    return Support({name: rows[name] for name in ordered if name in rows})


def stack_support(stack: Stack, prefix: str, *, notes: bool = False) -> Reasons:
    """Each value of a stack's blocks, folded where all blocks agree."""
    rows: Reasons = {}
    for listed in stack.LISTS:
        each = [block_support(block, notes=notes) for block in getattr(stack, listed)]
        names = dict.fromkeys(name for block in each for name in block)
        rows |= {f"{prefix}{listed}.{name}": _folded([block.get(name) for block in each]) for name in names}
    return rows


def _folded(reasons: list[str | None]) -> Any:
    if len(set(reasons)) == 1:
        return reasons[0]
    return {number: reason for number, reason in enumerate(reasons) if reason is not None}
