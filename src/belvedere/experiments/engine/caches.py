"""What blocks leave for later positions (keys, values, states), noted in one run and handed to another.

transformers' blocks ask a cache for it. These two answer as a cache does: one notes, the other puts what was noted of
the positions before a cut ahead of what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

__all__ = ["Given", "Noted", "Prefix", "Read", "Reading", "Replacing"]


class Noted(Cache):
    """An empty cache that notes what it is given, by block.

    Attributes:
        keys: Keys and values, ``[1, heads, positions, width]``.
        convolved: What enters a recurrent mixer's convolution, ``[1, width, positions]``.
        states: The state that a recurrent mixer ends with.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.keys: dict[int, tuple[Tensor, Tensor]] = {}
        self.convolved: dict[tuple[int, int], Tensor] = {}
        self.states: dict[tuple[int, int], Tensor] = {}

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """Note keys and values, and attend to these alone."""
        self.keys[layer_idx] = key_states[:1], value_states[:1]
        return key_states, value_states

    def update_conv_state(self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """Note what is convolved; nothing was before it."""
        self.convolved[layer_idx, state_idx] = conv_states[:1]
        return conv_states

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """Note a state."""
        self.states[layer_idx, state_idx] = recurrent_states[:1]
        return recurrent_states

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """Nothing, so that a mixer convolves all that it is given, whatever its length."""
        return None

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """Nothing was before."""
        return None

    def has_previous_state(self, layer_idx: int | None = None, state_idx: int | None = None) -> bool:
        """Nothing was before."""
        return False

    def is_recording_past(self, layer_idx: int) -> bool:
        """No."""
        return False

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many positions were before."""
        return 0


class Prefix(Noted):
    """What a run left of the positions before a cut, for several copies of what follows.

    Args:
        noted: What the run left.
        state: The state of a recurrent mixer at the cut, by block and number.
        cut: The first position that follows.
        times: How many copies.
    """

    def __init__(self, noted: Noted, state: Callable[[int, int], Tensor | None], cut: int, times: int) -> None:
        super().__init__()
        self.noted, self.state, self.cut, self.times = noted, state, cut, times

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """New keys and values behind those of the prefix."""
        before = self.noted.keys[layer_idx]
        pairs = zip(before, (key_states, value_states), strict=True)
        return tuple(torch.cat([self._copied(old[..., : self.cut, :]), new], dim=-2) for old, new in pairs)

    def update_conv_state(self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """What is convolved, behind the prefix's own."""
        before = self.noted.convolved[layer_idx, state_idx][..., : self.cut]
        return torch.cat([self._copied(before), conv_states], dim=-1)

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """The state at the cut."""
        held = self.state(layer_idx, state_idx)
        return None if held is None else self._copied(held)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The length of the prefix."""
        return self.cut

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """Nothing follows."""
        return recurrent_states

    def _copied(self, held: Tensor) -> Tensor:
        return held.expand(self.times, *held.shape[1:])


class Read(Exception):  # noqa: N818 - it is no error, it ends a block that has given what is wanted of it
    """A block has given its keys and values."""


class Reading(Prefix):
    """Takes the keys and values of a block, and ends it there."""

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """Take them."""
        self.read = layer_idx, super().update(key_states, value_states, layer_idx)
        raise Read


class Replacing(Reading):
    """Takes the keys and values of some rows of a block, each of one copy, into what was noted of all others.

    Args:
        noted: What the run left.
        copies: The copy of each row.
        rows: Its position.
        times: How many copies there are.
    """

    def __init__(self, noted: Noted, copies: Tensor, rows: Tensor, times: int) -> None:
        super().__init__(noted, lambda *_: None, 0, times)
        self.copies, self.rows = copies, rows

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """Take them."""
        made = []
        for old, new in zip(self.noted.keys[layer_idx], (key_states, value_states), strict=True):
            held = self._copied(old).clone()
            held[self.copies, :, self.rows] = new[0].transpose(0, 1)
            made.append(held)
        self.read = layer_idx, tuple(made)
        raise Read


class Given(Prefix):
    """Has the keys and values of every position already, those that are run again among them.

    Args:
        read: What was read of some copies, and of others behind them.
    """

    def __init__(self, read: Sequence[Reading]) -> None:
        super().__init__(read[0].noted, read[0].state, read[0].cut, sum(one.times for one in read))
        (self.layer,) = {one.read[0] for one in read}
        pairs = zip(*(one.read[1] for one in read), strict=True)
        self.given = tuple(parts[0] if len(parts) == 1 else torch.cat(parts) for parts in pairs)

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """What was read, whatever is new.

        Raises:
            KeyError: It is of another block.
        """
        if layer_idx != self.layer:
            raise KeyError(layer_idx)
        return self.given
