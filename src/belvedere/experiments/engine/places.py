"""Where a site's value is in a block, for an engine that runs the block itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.components.layer import MIXERS, Block
from belvedere.components.standard import Standard
from belvedere.errors import InputError
from belvedere.select import First, Part

if TYPE_CHECKING:
    from belvedere.experiments.sites import Site

__all__ = ["Place", "Places", "block_of", "by_prompt", "mixer_of"]


@dataclass(frozen=True)
class Place:
    """Where a value is: what enters or leaves a block, or what a part of it returns.

    Args:
        module: The block, or its part.
        point: ``input`` or ``output``.
        part: Which part of what is served there it is.
        inside: Whether it is a part's.
    """

    module: torch.nn.Module
    point: str
    part: Part
    inside: bool


class Places:
    """Where a site's value is on each of its blocks.

    Attributes:
        inside: Whether it is inside of the blocks, where a part of them returns it.
        enters: Whether it is what enters the blocks.
        wanted: The modules whose outputs are to be noted: the parts that return the value, by block, and what mixes
            positions there, by ``("mixer", block)``.

    Raises:
        InputError: On some block it is at an operation, which no module returns, or elsewhere than on others.
    """

    def __init__(self, site: Site) -> None:
        self._places = {number: _place(host, site.name) for number, host in site.hosts.items()}
        kinds = {(place.point, place.inside) for place in self._places.values()}
        if len(kinds) != 1:
            raise InputError(f"{site.path} is not at the same place on every block")
        ((point, self.inside),) = kinds
        self.enters = point == "input"
        self._mixers = {number: mixer_of(host) for number, host in site.hosts.items()} if self.inside else {}
        self.wanted: dict[Any, torch.nn.Module] = {("mixer", number): mixer for number, mixer in self._mixers.items()}
        if self.inside:
            self.wanted |= {number: place.module for number, place in self._places.items()}

    def kind(self, layer: int) -> str:
        """What sets a block apart from others of the site."""
        return type(self._mixers[layer]).__name__ if self.inside else ""

    def values(self, layer: int, outputs: Mapping[Any, Any]) -> Tensor:
        """A value inside of a block in two runs, ``[2, positions, width]``, from what the wanted modules returned."""
        return by_prompt(self._places[layer].part.get(outputs[layer]))

    def answers(self, layer: int, outputs: Mapping[Any, Any], rows: Tensor, new: Tensor) -> dict[torch.nn.Module, Any]:
        """What parts of a block return at some positions: the first run's mixer, and new vectors, ``[rows, width]``."""
        place = self._places[layer]
        return {
            self._mixers[layer]: _rows(First(), outputs["mixer", layer], 0, rows),
            place.module: _shaped(place.part, outputs[layer], new),
        }


def _place(host: Standard, name: str) -> Place:
    value = host.values()[name]
    envoy, place = value._place(host)
    where, _, point = place.rpartition(".")
    if where.startswith(":"):
        raise InputError(f"{value.path(host)} is at an operation inside a forward, and at no module")
    module = envoy.get(where)._module if where else envoy._module
    inside = module is not block_of(host)._module
    if inside and point != "output":
        raise InputError(f"{value.path(host)} is what a part of the block is given")
    return Place(module, point, value.part(host), inside)


def mixer_of(host: Standard) -> torch.nn.Module:
    """What mixes positions in the block that a host is or belongs to.

    Raises:
        InputError: The block has no part of such a name.
    """
    parts = vars(block_of(host))
    found = [parts[name]._module for name in MIXERS if isinstance(parts.get(name), Standard)]
    if len(found) != 1:
        raise InputError(f"{block_of(host).name} has {len(found)} parts that mix positions")
    module: torch.nn.Module = found[0]
    return module


def block_of(host: Standard) -> Block:
    """The block that a host is or belongs to."""
    above: Any = host
    while not isinstance(above, Block):
        above = above.host
    return above


def _rows(part: Part, output: Any, prompt: int, rows: Tensor) -> Any:
    """What a module returned for one of two prompts, at some positions only, in the same form."""
    held = by_prompt(part.get(output))[prompt]
    return _shaped(part, output, held.index_select(0, rows.to(held.device)))


def _shaped(part: Part, output: Any, vectors: Tensor) -> Any:
    """Vectors ``[rows, width]`` in the form of what a module returned."""
    held = part.get(output)
    return part.put(output, vectors.to(held) if held.ndim == 2 else vectors.to(held)[None])


def by_prompt(held: Tensor) -> Tensor:
    """What a module returned for two prompts, ``[2, positions, width]``; a mixture of experts returns tokens flat."""
    return held.reshape(2, -1, held.shape[-1])
