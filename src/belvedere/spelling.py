"""The nearest known name to one that someone mistyped, for the end of a message."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["did_you_mean", "meant", "nearest"]


def nearest(name: object, known: Iterable[str], closeness: float = 0.66) -> str | None:
    """The known name that is most like one that was written; ``None`` where none is near.

    Args:
        name: What was written.
        known: The names that exist; of equally near ones the first.
        closeness: How alike two names must be, from 0 to 1.
    """
    written = str(name)
    likeness = {one: SequenceMatcher(None, one, written).ratio() for one in known}
    best = max(likeness, key=lambda one: likeness[one], default=None)
    return best if best is not None and likeness[best] >= closeness else None


def meant(name: str) -> str:
    """``"; did you mean 'layer_output'?"``."""
    return f"; did you mean {name!r}?"


def did_you_mean(name: object, known: Iterable[str], closeness: float = 0.66) -> str:
    """`meant` of the `nearest` name; nothing where none is near."""
    near = nearest(name, known, closeness)
    return "" if near is None else meant(near)
