"""Where a site's value is in a block, for an engine that runs the block itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.components.layer import MIXERS, Block
from belvedere.components.standard import Standard
from belvedere.errors import InputError
from belvedere.select import Part

if TYPE_CHECKING:
    from belvedere.experiments.sites import Site

__all__ = ["Place", "block_of", "by_prompt", "mixer_of", "places_of", "rows_at"]


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


def places_of(site: Site) -> dict[int, Place]:
    """The place of a site's value on each of its blocks.

    Raises:
        InputError: On some block it is at an operation, which no module returns.
    """
    found = {}
    for number, host in site.hosts.items():
        value = host.values()[site.name]
        envoy, place = value._place(host)
        where, _, point = place.rpartition(".")
        if where.startswith(":"):
            raise InputError(f"{value.path(host)} is at an operation inside a forward, and at no module")
        module = envoy.get(where)._module if where else envoy._module
        block = block_of(host)
        inside = module is not block._module
        if inside and point != "output":
            raise InputError(f"{value.path(host)} is what a part of the block is given")
        found[number] = Place(module, point, value.part(host), inside)
    return found


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


def rows_at(part: Part, output: Any, prompt: int, rows: Tensor) -> Any:
    """What a module returned for one of two prompts, at some positions only, in the same form."""
    held = part.get(output)
    chosen = by_prompt(held)[prompt : prompt + 1].index_select(1, rows.to(held.device))
    return part.put(output, chosen[0] if held.ndim == 2 else chosen)


def by_prompt(held: Tensor) -> Tensor:
    """What a module returned for two prompts, ``[2, positions, width]``; a mixture of experts returns tokens flat."""
    return held.reshape(2, -1, held.shape[-1])
