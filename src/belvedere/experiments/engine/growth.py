"""What a call's arguments become when several copies of a prompt run at once, and only from some position on.

Nothing is assumed of an architecture. A call is observed with one prompt and with two, and the axis that grew is the
prompts'; an axis as long as the prompt is the positions'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from transformers.utils.generic import ModelOutput

__all__ = ["Copies", "is_square"]


@dataclass(frozen=True)
class Copies:
    """Makes the arguments for some copies of a prompt.

    Args:
        times: How many copies.
        length: How many positions the prompt has.
        start: The first position that is run.
        stop: The position before which to stop; by default all that follow are run.
        rows: These positions alone, in this order, in the place of a run of them.
    """

    times: int
    length: int
    start: int = 0
    stop: int | None = None
    rows: Tensor | None = None
    _made: dict[int, Any] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)

    def of(self, one: Any, two: Any) -> Any:
        """The argument for the copies, from what it was for one prompt, and for two of which this is the first.

        What was one object stays one.
        """
        if id(two) not in self._made:
            self._kept.append(two)
            self._made[id(two)] = self._new(one, two)
        return self._made[id(two)]

    def _new(self, one: Any, two: Any) -> Any:
        if isinstance(two, Tensor):
            return self._tensor(one if isinstance(one, Tensor) else None, two)
        if isinstance(two, (tuple, list)) and type(two) in (tuple, list):
            others = one if isinstance(one, (tuple, list)) and len(one) == len(two) else [None] * len(two)
            return type(two)(self._new(*pair) for pair in zip(others, two, strict=True))
        if isinstance(two, ModelOutput):
            given: Mapping[Any, Any] = one if isinstance(one, Mapping) else {}
            return type(two)(**{name: self._new(given.get(name), held) for name, held in two.items()})
        if isinstance(two, Mapping):
            # What blocks leave in it is theirs; what is in it already is of whole prompts.
            whole = Copies(self.times, self.length)
            known: Mapping[Any, Any] = one if isinstance(one, Mapping) else {}
            made: Any = type(two)()
            made.update({name: whole._new(known.get(name), held) for name, held in two.items()})
            return made
        return two

    def _tensor(self, one: Tensor | None, two: Tensor) -> Tensor:
        axis = grown(one, two)
        made = two if axis is None else spread(two.narrow(axis, 0, two.shape[axis] // 2), axis, self.times)
        along = positions_axis(two, axis, self.length)
        if along is None:
            return made
        if self.rows is not None:
            return made.index_select(along, self.rows.to(made.device))
        stop = self.length if self.stop is None else self.stop
        return made.narrow(along, self.start, stop - self.start)


def grown(one: Tensor | None, two: Tensor) -> int | None:
    """The axis that has twice the entries for two prompts; ``None`` where none has, and all prompts share it."""
    if one is None or one.ndim != two.ndim:
        return None
    axes = [axis for axis in range(one.ndim) if one.shape[axis] != two.shape[axis]]
    return axes[0] if len(axes) == 1 and two.shape[axes[0]] == 2 * one.shape[axes[0]] else None


def spread(held: Tensor, axis: int, times: int) -> Tensor:
    """A tensor several times over along an axis; a view where the axis has one entry."""
    sizes = [1] * held.ndim
    if held.shape[axis] == 1:
        return held.expand(*(times if number == axis else -1 for number in range(held.ndim)))
    sizes[axis] = times
    return held.repeat(*sizes)


def is_square(held: Any, length: int) -> bool:
    """Whether a tensor says which position attends to which: ``[..., positions, positions]``."""
    return isinstance(held, Tensor) and held.ndim == 4 and held.shape[-2:] == (length, length)


def positions_axis(held: Tensor, prompts: int | None, length: int) -> int | None:
    """The axis of the positions that are run; of a mask over pairs, the one of those that attend."""
    if is_square(held, length):
        return held.ndim - 2
    axes = [axis for axis in range(held.ndim) if held.shape[axis] == length and axis != prompts]
    return axes[0] if axes else None
