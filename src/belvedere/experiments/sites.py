"""Where an experiment reads and writes: one value, on every block of a stack that has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from belvedere import layouts
from belvedere.components import NoVision, Standard
from belvedere.components.layer import MIXERS
from belvedere.components.standard import blocks
from belvedere.errors import InputError, Unavailable

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Site"]

TOWER = "vision.layers."
TEXT = "layers."
#: The first two axes of a layout whose rows can be counted off as one flat run of positions.
POSITIONS = {("batch", "seq"), ("images", "patches")}
PARTS = (*MIXERS, "mlp")


@dataclass(frozen=True, kw_only=True)
class Site:
    """A value by its standard path, with the envoy that serves it on each chosen block.

    Args:
        path: The standard path without block numbers, such as ``vision.layers.layer_output``.
        hosts: The block, or the part of it, that has the value, by block number, in the order of the forward.
    """

    path: str
    hosts: dict[int, Standard]

    @property
    def name(self) -> str:
        """The value's own name."""
        return self.path.rpartition(".")[2]

    @property
    def is_tower(self) -> bool:
        """Whether its positions are patches rather than tokens."""
        return self.path.startswith(TOWER)

    @classmethod
    def find(cls, model: StandardizedTransformer, path: str, layers: Iterable[int] | None) -> Site:
        """The site of a value.

        Args:
            model: The model.
            path: A standard path without block numbers.
            layers: The blocks; by default all that have the value.

        Raises:
            InputError: There is no such path or block, or the value has no axis of positions.
            Unavailable: The value cannot be had, on any block or on one that was asked for.
        """
        stack = _blocks_of(model, path)
        name = path.rpartition(".")[2]
        served = {number: host for number, block in enumerate(stack) if (host := _host(block, name)) is not None}
        if not served:
            raise InputError(f"no block has a value {name!r}; values with positions: {', '.join(_patchable(stack))}")
        hosts = _chosen(path, served, len(stack), layers)
        value = next(iter(hosts.values())).values()[name]
        if not _has_positions(value):
            raise InputError(
                f"{path} is {layouts.shape(value.layout) or value.description} and not one vector per position; "
                f"values with positions: {', '.join(_patchable(stack))}"
            )
        if value.read_only:
            raise InputError(f"{path} cannot be written: {value.read_only}")
        return cls(path=path, hosts=hosts)

    def read(self, layer: int) -> Tensor:
        """The value on a block, inside a trace."""
        held: Tensor = getattr(self.hosts[layer], self.name)
        return held

    def rows(self, layer: int, rows: Tensor) -> Tensor:
        """A copy of some rows of the value, counted over its first two axes: ``[rows, width]``; inside a trace."""
        held = self.read(layer)
        first, second = _places(held, rows)
        return held[first, second]

    def put(self, layer: int, rows: Tensor, source: Tensor, copies: Tensor | None = None) -> None:
        """Inside a trace: put vectors at some rows of the value, counted over its first two axes.

        Where the trace runs several copies of a prompt, ``copies`` is the copy of each row, numbered from 0, each with
        as many rows; the last copy must be among them.

        The block gets a new tensor. An edit in place would reach everyone who holds the old one, such as a wrapper that
        collects the tower's hidden states, and not this site alone.
        """
        written = self.read(layer).clone()
        if copies is not None:
            rows = rows + copies * (written.shape[0] * written.shape[1] // (int(copies.max()) + 1))
        written[_places(written, rows)] = source.to(written.device, written.dtype)
        setattr(self.hosts[layer], self.name, written)


def _places(held: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.to(held.device)
    return rows // held.shape[1], rows % held.shape[1]


def _blocks_of(model: StandardizedTransformer, path: str) -> Sequence[Any]:
    """The blocks that a path is about."""
    if path.startswith(TOWER) and path.count(".") == 2:
        if isinstance(model.vision, NoVision):
            raise Unavailable(path, str(model.vision.no_images()))
        return list(model.vision.layers)
    if path.startswith(TEXT) and path.count(".") == 1:
        return list(model.layers)
    raise InputError(
        f"{path!r} is no value of a stack's blocks; write 'layers.<value>' for the text or 'vision.layers.<value>' for "
        "the tower, without block numbers: 'layers.layer_output', 'vision.layers.mlp_output'"
    )


def _parts(block: Any) -> list[Standard]:
    """A block and its standard parts."""
    parts = [vars(block).get(name) for name in PARTS]
    return [block, *(part for part in parts if isinstance(part, Standard))]


def _host(block: Any, name: str) -> Standard | None:
    return next((part for part in _parts(block) if name in part.values()), None)


def _has_positions(value: Any) -> bool:
    held = getattr(layouts, value.layout, None)
    if not hasattr(held, "dim_str"):
        return False
    named = layouts.axes(held)
    return len(named) == 3 and named[:2] in POSITIONS


def _patchable(stack: Sequence[Any]) -> list[str]:
    """The values of a stack that have positions and can be had on some block."""
    found = [
        name
        for block in stack
        for part in _parts(block)
        for name, value in part.values().items()
        if _has_positions(value) and not value.read_only and value.reason(part) is None
    ]
    return list(dict.fromkeys(found))


def _chosen(path: str, served: dict[int, Standard], count: int, layers: Iterable[int] | None) -> dict[int, Standard]:
    """The hosts of the chosen blocks, each of which has the value."""
    name = path.rpartition(".")[2]
    reasons = {number: host.values()[name].reason(host) for number, host in served.items()}
    having = [number for number, reason in reasons.items() if reason is None]
    if not having:
        raise Unavailable(path, str(next(iter(reasons.values()))))
    wanted = having if layers is None else sorted(set(layers))
    for number in wanted:
        if not 0 <= number < count:
            raise InputError(f"there is no block {number}; {path} has blocks 0 to {count - 1}")
        if number not in having:
            why = reasons.get(number) or f"block {number} has no such part"
            raise Unavailable(path.replace("layers.", f"layers[{number}].", 1), f"{why}; have it: {blocks(having)}")
    if not wanted:
        raise InputError(f"`layers` is empty; {path} has blocks {blocks(having)}")
    return {number: served[number] for number in wanted}
