"""Reasons gathered over a stack: what reads, what does not, and on which blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from belvedere.components.standard import Standard

if TYPE_CHECKING:
    from belvedere.components.stack import Stack

__all__ = ["Reasons", "block_support", "stack_support"]

#: A value's support: ``None`` where it reads, a reason, or ``{block: reason}`` where the blocks differ.
Reasons = dict[str, Any]


def block_support(block: Standard) -> dict[str, str | None]:
    """Each value of one block and its parts, by value name, in the order of the forward."""
    rows = dict(block.support())
    mixers = [part for name in ("self_attn", "linear_attn") if (part := vars(block).get(name)) is not None]
    for part in [*mixers, vars(block).get("mlp")]:
        if isinstance(part, Standard):
            rows |= part.support()
    first, last = "layer_input", ("layer_output", "deepstack_output")
    ordered = [first, *(name for name in rows if name not in (first, *last)), *last]
    return {name: rows[name] for name in ordered if name in rows}


def stack_support(stack: Stack, prefix: str) -> Reasons:
    """Each value of a stack's blocks, folded where all blocks agree."""
    each = [block_support(block) for block in stack.layers]
    names = dict.fromkeys(name for rows in each for name in rows)
    return {f"{prefix}layers.{name}": _folded([rows.get(name) for rows in each]) for name in names}


def _folded(reasons: list[str | None]) -> Any:
    if len(set(reasons)) == 1:
        return reasons[0]
    return {number: reason for number, reason in enumerate(reasons) if reason is not None}
