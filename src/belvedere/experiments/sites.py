"""Where an experiment reads and writes: one value, on every block of a stack that has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from belvedere import layouts
from belvedere.components import NoVision, Standard
from belvedere.components.layer import MIXERS
from belvedere.components.standard import blocks
from belvedere.errors import InputError, Unavailable
from belvedere.experiments.maps import BEFORE
from belvedere.experiments.numbers import Layers, blocks_asked
from belvedere.spelling import did_you_mean

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Site"]

TOWER = "vision.layers."
TEXT = "layers."
FEATURES = "vision.image_features"
#: The first two axes of a layout whose rows can be counted off as one flat run of positions.
POSITIONS = {("batch", "seq"), ("images", "patches")}
#: The same of a layout with heads before its positions; keys are as many as positions where no cache holds any.
BY_HEAD = {("batch", "seq"), ("batch", "keys"), ("images", "patches")}
WIDTHS = {"head_dim", "key_dim", "value_dim"}
PARTS = (*MIXERS, "mlp")
#: The state that a recurrent mixer's positions find, a matrix per head.
STATE = "state_input"
#: Why a state is not at hand here, and what is in its place.
STATES = {
    STATE: (
        ", and no module holds the state between two positions; `patch` alone reaches it, and what it is made of is at "
        "each position (attention_keys, attention_values, betas, decays)"
    ),
    "state_output": (
        ": only the next step of a generation reads it; patch layers.state_input, the state that a position finds"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Site:
    """A value by its standard path, with the envoy that serves it on each chosen block.

    A value is a flat run of *units*, each a vector: its positions one after the other, and at each of them its heads.

    Args:
        path: The standard path without block numbers, such as ``vision.layers.layer_output``.
        hosts: The block, or the part of it, that has the value, by block number, in the order of the forward; the
            tower, by `BEFORE`, for image features.
        heads: How many heads the value has at each position; 1 where it has none.
        by_head: Whether it has heads at all.
    """

    path: str
    hosts: dict[int, Standard]
    heads: int = 1
    by_head: bool = False

    @property
    def name(self) -> str:
        """The value's own name."""
        return self.path.rpartition(".")[2]

    @property
    def is_tower(self) -> bool:
        """Whether its positions are patches rather than tokens."""
        return self.path.startswith(TOWER)

    @property
    def is_features(self) -> bool:
        """Whether it is what is written over the placeholders; its units are image tokens then."""
        return self.path == FEATURES

    @classmethod
    def find(cls, model: StandardizedTransformer, path: str, layers: Layers | None, *, states: bool = False) -> Site:
        """The site of a value.

        Args:
            model: The model.
            path: A standard path without block numbers.
            layers: The blocks; by default all that have the value.
            states: Whether the state that positions find is one.

        Raises:
            InputError: There is no such path or block, or the value has no axis of positions.
            Unavailable: The value cannot be had, on any block or on one that was asked for.
        """
        if path == FEATURES:
            return cls(path=path, hosts={BEFORE: _features(model, layers)})
        stack = _blocks_of(model, path)
        name = path.rpartition(".")[2]
        served = {number: host for number, block in enumerate(stack) if (host := _host(block, name)) is not None}
        if not stack:
            raise Unavailable(path, f"this stack has no blocks; patch {FEATURES}")
        if not served:
            having = _patchable(stack)
            near = did_you_mean(name, having)
            raise InputError(f"no block has a value {name!r}{near or '; values with positions: ' + ', '.join(having)}")
        hosts = _chosen(path, served, len(stack), layers)
        if states and path == TEXT + STATE:
            return cls(path=path, hosts=hosts, heads=_alike(path, hosts, "value_heads"), by_head=True)
        odd = [host.values()[name] for host in hosts.values() if not has_positions(host.values()[name])]
        if odd and (layers is not None or len(odd) == len(hosts)):
            raise InputError(
                f"{path} is {layouts.shape(odd[0].layout) or odd[0].description} and not one vector per position"
                f"{STATES.get(name, '')}; values with positions: {', '.join(_patchable(stack))}"
            )
        hosts = {number: host for number, host in hosts.items() if has_positions(host.values()[name])}
        for host in hosts.values():
            if host.values()[name].read_only:
                raise InputError(f"{path} cannot be written: {host.values()[name].read_only}")
        axis = _head_axis(_axes(next(iter(hosts.values())).values()[name]))
        if axis is None:
            return cls(path=path, hosts=hosts)
        return cls(path=path, hosts=hosts, heads=_alike(path, hosts, ""), by_head=True)

    @property
    def is_state(self) -> bool:
        """Whether it is the state that positions find, which only a trace of its own reaches."""
        return self.name == STATE

    def read(self, layer: int) -> Tensor:
        """The value on a block, inside a trace."""
        held: Tensor = getattr(self.hosts[layer], self.name)
        return held

    def flat(self, held: Tensor) -> Tensor:
        """The value as its units, ``[units, width]``."""
        if self.is_features:
            return held
        if not self.by_head:
            return held.flatten(0, 1)
        return (held[..., None] if held.ndim == 3 else held).transpose(1, 2).flatten(0, 2)

    def rows(self, layer: int, units: Tensor) -> Tensor:
        """A copy of some units of the value: ``[units, width]``; inside a trace."""
        held = self.read(layer)
        return self._moved(held)[self._places(held, units)]

    def put(self, layer: int, units: Tensor, source: Tensor, copies: Tensor | None = None) -> None:
        """Inside a trace: put vectors at some units of the value.

        Where the trace runs several copies of a prompt, ``copies`` is the copy of each unit, numbered from 0, each with
        as many units; the last copy must be among them.

        The block gets a new tensor. An edit in place would reach everyone who holds the old one, such as a wrapper that
        collects the tower's hidden states, and not this site alone.
        """
        held = self.read(layer)
        if copies is not None:
            units = units + copies * (self.count(held) // (int(copies.max()) + 1))
        setattr(self.hosts[layer], self.name, self.written(held, units, source))

    def written(self, held: Tensor, units: Tensor, source: Tensor) -> Tensor:
        """A copy of the value with other vectors at some units."""
        written = held.clone()
        self._moved(written)[self._places(held, units)] = source.to(written.device, written.dtype)
        return written

    def count(self, held: Tensor) -> int:
        """How many units a value has."""
        return len(held) if self.is_features else held.shape[0] * held.shape[1] * (held.shape[2] if self.by_head else 1)

    def _moved(self, held: Tensor) -> Tensor:
        """A view whose last axis is a unit's vector, with heads behind positions."""
        if not self.by_head:
            return held
        return (held[..., None] if held.ndim == 3 else held).transpose(1, 2)

    def _places(self, held: Tensor, units: Tensor) -> tuple[Tensor, ...]:
        """Where units are in `_moved`."""
        units = units.to(held.device)
        if self.is_features:
            return (units,)
        if not self.by_head:
            return units // held.shape[1], units % held.shape[1]
        positions, heads = units // held.shape[1], units % held.shape[1]
        return positions // held.shape[2], positions % held.shape[2], heads


def _features(model: StandardizedTransformer, layers: Layers | None) -> Standard:
    """The tower, where what it makes is written over placeholders."""
    if isinstance(model.vision, NoVision):
        raise Unavailable(FEATURES, str(model.vision.no_images()))
    value = model.vision.values()["image_features"]
    reason = value.reason(model.vision)
    if reason is not None:
        raise Unavailable(FEATURES, reason)
    if layouts.axes(getattr(layouts, value.layout))[0] != "image_tokens":
        raise InputError(
            f"{FEATURES} is {layouts.shape(value.layout)}: this model writes nothing over placeholders, so a feature "
            "has no position in the prompt; patch layers.attention_output of the blocks that attend to the pictures"
        )
    if layers is not None:
        raise InputError(f"{FEATURES} is of no block; leave `layers` out")
    host: Standard = model.vision
    return host


def _blocks_of(model: StandardizedTransformer, path: str) -> Sequence[Any]:
    """The blocks that a path is about."""
    if not isinstance(path, str):
        raise InputError(f"the value is {path!r}; pass its path without block numbers, such as 'layers.layer_output'")
    if path.startswith(TOWER) and path.count(".") == 2:
        if isinstance(model.vision, NoVision):
            raise Unavailable(path, str(model.vision.no_images()))
        return list(model.vision.layers)
    if path.startswith(TEXT) and path.count(".") == 1:
        return list(model.layers)
    raise InputError(
        f"{path!r} is no value of a stack's blocks; write 'layers.<value>' for the text or 'vision.layers.<value>' for "
        "the tower, without block numbers: 'layers.layer_output', 'vision.layers.mlp_output'; or "
        f"'vision.image_features'{did_you_mean(path, _paths(model))}"
    )


def _paths(model: StandardizedTransformer) -> list[str]:
    """The paths of all values that can be patched."""
    text = [TEXT + name for name in _patchable(list(model.layers))]
    if isinstance(model.vision, NoVision):
        return text
    return [*text, FEATURES, *(TOWER + name for name in _patchable(list(model.vision.layers)))]


def _parts(block: Any) -> list[Standard]:
    """A block and its standard parts."""
    parts = [vars(block).get(name) for name in PARTS]
    return [block, *(part for part in parts if isinstance(part, Standard))]


def _host(block: Any, name: str) -> Standard | None:
    return next((part for part in _parts(block) if name in part.values()), None)


def has_positions(value: Any) -> bool:
    """Whether a value is one vector, or one per head, at each position."""
    named = _axes(value)
    return (len(named) == 3 and named[:2] in POSITIONS) or _head_axis(named) is not None


def _axes(value: Any) -> tuple[str, ...]:
    held = getattr(layouts, value.layout, None)
    return layouts.axes(held) if hasattr(held, "dim_str") else ()


def _head_axis(named: tuple[str, ...]) -> str | None:
    """The axis of the heads, in a layout that has them before its positions."""
    one_each = len(named) == 3 or (len(named) == 4 and named[3] in WIDTHS)
    found = one_each and named[1].endswith("heads") and (named[0], named[2]) in BY_HEAD
    return named[1] if found else None


def _alike(path: str, hosts: dict[int, Standard], axis: str) -> int:
    """How many heads a value has on every block.

    Args:
        path: The value.
        hosts: What has it, by block.
        axis: The axis of its heads; by default the one before its positions.

    Raises:
        InputError: They are not as many on every block.
    """
    name = path.rpartition(".")[2]
    heads = {
        number: host.axis_size(axis or _head_axis(_axes(host.values()[name])) or "heads")
        for number, host in hosts.items()
    }
    if len(set(heads.values())) != 1:
        said = ", ".join(f"{blocks([n for n in heads if heads[n] == h])}: {h}" for h in sorted(set(heads.values())))
        raise InputError(f"{path} has not as many heads on every block ({said}); choose `layers` that have as many")
    return next(iter(heads.values()))


def _patchable(stack: Sequence[Any]) -> list[str]:
    """The values of a stack that have positions and can be had on some block."""
    found = [
        name
        for block in stack
        for part in _parts(block)
        for name, value in part.values().items()
        if has_positions(value) and not value.read_only and value.reason(part) is None
    ]
    return list(dict.fromkeys(found))


def _chosen(path: str, served: dict[int, Standard], count: int, layers: Layers | None) -> dict[int, Standard]:
    """The hosts of the chosen blocks, each of which has the value."""
    name = path.rpartition(".")[2]
    reasons = {number: host.values()[name].reason(host) for number, host in served.items()}
    having = [number for number, reason in reasons.items() if reason is None]
    if not having:
        raise Unavailable(path, str(next(iter(reasons.values()))))
    wanted = having if layers is None else blocks_asked(layers, count, path)
    for number in wanted:
        if number not in having:
            why = reasons.get(number) or f"block {number} has no such part"
            raise Unavailable(path.replace("layers.", f"layers[{number}].", 1), f"{why}; have it: {blocks(having)}")
    return {number: served[number] for number in wanted}
