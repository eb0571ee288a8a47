"""How the experiments read numbers that someone passes: one or several, as integers, tensors or arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from belvedere.errors import InputError

__all__ = ["Layers", "blocks_asked", "cells_at_once", "whole"]

#: A block, or several; below 0 they count from the end.
Layers = int | Iterable[int]


def whole(given: Any, name: str) -> list[int]:
    """Whole numbers, in the order in which they are given.

    Args:
        given: A number, or several.
        name: The parameter.

    Raises:
        InputError: One is no whole number.
    """
    held = given.tolist() if hasattr(given, "tolist") else given
    several = isinstance(held, Iterable) and not isinstance(held, (str, bytes))
    return [_whole(one, name) for one in (held if several else [held])]


def blocks_asked(layers: Layers, count: int, path: str) -> list[int]:
    """The blocks of a stack that someone asks for, in the order of the forward.

    Args:
        layers: A block, or several.
        count: How many the stack has.
        path: What is looked for on them.

    Raises:
        InputError: None is asked for, or there is no such block.
    """
    wanted = whole(layers, "layers")
    strange = [number for number in wanted if not -count <= number < count]
    if strange or not wanted:
        what = f"there is no block {strange[0]}" if strange else "`layers` is empty"
        raise InputError(f"{what}; {path} has {f'blocks 0 to {count - 1}' if count else 'no blocks'}")
    return sorted({number % count for number in wanted})


def cells_at_once(given: Any, what: str = "cell") -> int | None:
    """How many cells share a forward, where that is not left open.

    Raises:
        InputError: It is no number of 1 or more.
    """
    if given is None:
        return None
    number = _whole(given, "batch_cells")
    if number < 1:
        raise InputError(f"batch_cells is {number}; at least one {what} goes into a forward")
    return number


def _whole(given: Any, name: str) -> int:
    """One number; a mask is none, as its entries would be taken for 0 and 1."""
    if not isinstance(given, bool):
        try:
            return operator.index(given)
        except TypeError:
            pass
    raise InputError(f"`{name}` has {given!r}, which is no whole number; pass whole numbers")
