"""Where a site's value is in a block, for an engine that runs the block itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere.components.layer import MIXERS, Block
from belvedere.components.standard import Standard
from belvedere.errors import InputError
from belvedere.experiments.engine.observed import noting
from belvedere.select import First, Part

if TYPE_CHECKING:
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Place", "Places", "Spots", "block_of", "by_prompt", "mixer_of"]

#: What heads read before the last projection of what mixes positions.
READ_OUT = ("attention_head_outputs", "state_head_outputs")


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


@dataclass(frozen=True)
class Spots:
    """Where some copies of a run are patched.

    Args:
        copies: The copy of each spot.
        rows: Its position.
        heads: ``[spots, heads]``: which heads are patched there; a single column where the value has none.
    """

    copies: Tensor
    rows: Tensor
    heads: Tensor

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]], heads: int) -> Spots:
        """Of copies that are patched at some units each, of which every position has as many as heads."""
        units = torch.tensor([unit for group in groups for unit in group])
        copies = torch.tensor([copy for copy, group in enumerate(groups) for _ in group])
        length = int(units.max()) // heads + 1
        found, spot = torch.unique(copies * length + units // heads, return_inverse=True)
        chosen = torch.zeros(len(found), heads, dtype=torch.bool)
        chosen[spot, units % heads] = True
        return cls(found // length, found % length, chosen)

    @property
    def units(self) -> Tensor:
        """All units at the positions: every head of each, whether it is patched or not."""
        heads = self.heads.shape[1]
        return (self.rows[:, None] * heads + torch.arange(heads)).flatten()


class Places:
    """Where a site's value is on each of its blocks.

    Attributes:
        inside: Whether it is inside of the blocks, where a part of them returns it.
        enters: Whether it is what enters the blocks.
        read_out: Whether it is what the last projection of what mixes positions reads, head by head.

    Raises:
        InputError: On some block it is at an operation, which no module returns, or elsewhere than on others.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.read_out = site.name in READ_OUT
        self._places = {} if self.read_out else {number: _place(host, site.name) for number, host in site.hosts.items()}
        kinds = {(place.point, place.inside) for place in self._places.values()} or {("read out", True)}
        if len(kinds) != 1:
            raise InputError(f"{site.path} is not at the same place on every block")
        ((point, self.inside),) = kinds
        self.enters = point == "input"
        self._mixers = {number: mixer_of(host) for number, host in site.hosts.items()} if self.inside else {}
        self._gates: dict[int, tuple[Tensor, Tensor]] = {}
        self._ended: dict[int, Last] = {}

    @contextmanager
    def noting(self) -> Iterator[dict[Any, Any]]:
        """What parts of the blocks return while it holds.

        Those that return the value, by block; what mixes positions there, by ``("mixer", block)``; and for what heads
        read, the last projection in it, with what it is given and what it returns.
        """
        wanted: dict[Any, torch.nn.Module] = {("mixer", number): mixer for number, mixer in self._mixers.items()}
        wanted |= {number: place.module for number, place in self._places.items() if self.inside}
        with noting(wanted) as held, _noting_last(self._mixers if self.read_out else {}) as last:
            yield held
        held |= last

    def learn(self, model: StandardizedTransformer, encoding: Mapping[str, Any]) -> None:
        """Read what heads read, and the gates on it, in a trace of both runs, on blocks that have a gate.

        The projection there is given the product, of which neither can be told.
        """
        hosts = {layer: host for layer, host in self.site.hosts.items() if self.read_out and _is_gated(host)}
        if hosts:
            with torch.no_grad(), model.trace(**encoding):
                held = nnsight.save(
                    {layer: (host.attention_head_outputs, host.attention_gate) for layer, host in hosts.items()}
                )
            self._gates = {layer: (_side_by_side(one), _side_by_side(gate)) for layer, (one, gate) in held.items()}

    def kind(self, layer: int) -> str:
        """What sets a block apart from others of the site."""
        return type(self._mixers[layer]).__name__ if self.inside else ""

    def values(self, layer: int, outputs: Mapping[Any, Any]) -> Tensor:
        """A value inside of a block in two runs, ``[2, units, width]``, from what the noted modules returned."""
        if not self.read_out:
            return by_prompt(self._places[layer].part.get(outputs[layer]))
        last = self._last(layer, outputs)
        held = self._gates[layer][0] if layer in self._gates else by_prompt(last.given)
        return held.reshape(2, held.shape[1] * self.site.heads, -1)

    def answers(self, layer: int, outputs: Mapping[Any, Any], spots: Spots, new: Tensor) -> dict[torch.nn.Module, Any]:
        """What parts of a block return at some spots: the first run's mixer, and new vectors there.

        Args:
            layer: The block.
            outputs: What the noted modules returned.
            spots: The spots.
            new: ``[spots, heads * width]``.
        """
        mixed = outputs["mixer", layer]
        if not self.read_out:
            place = self._places[layer]
            return {
                self._mixers[layer]: _rows(First(), mixed, spots.rows),
                place.module: _like(place.part, outputs[layer], new),
            }
        return {self._mixers[layer]: _like(First(), mixed, self._mixed(layer, outputs, spots, new))}

    def _mixed(self, layer: int, outputs: Mapping[Any, Any], spots: Spots, new: Tensor) -> Tensor:
        """What mixes positions returns at some spots, where some heads read something new."""
        last = self._last(layer, outputs)
        rows = spots.rows.to(last.given.device)
        corrupt = by_prompt(last.given)[0, rows]
        if layer in self._gates:
            _, gate = self._gates[layer]
            new = new * gate[0, rows]
        chosen = spots.heads.to(rows.device).repeat_interleave(corrupt.shape[-1] // self.site.heads, dim=1)
        given = torch.where(chosen, new.to(corrupt), corrupt)
        projected: Tensor = last.module(given if last.given.ndim == 2 else given[None])
        return projected.reshape(len(rows), -1)

    def _last(self, layer: int, outputs: Mapping[Any, Any]) -> Last:
        """The projection that a mixer ends with.

        Raises:
            InputError: It ends otherwise, or the projection is given something else than what its heads read.
        """
        if layer in self._ended:
            return self._ended[layer]
        last = outputs.get(("last", layer))
        mixed = First().get(outputs["mixer", layer])
        if last is None or last.given.shape[-1] % self.site.heads or not torch.equal(last.returned, mixed):
            raise InputError(f"no projection of what heads read ends the attention of block {layer}")
        if layer in self._gates:
            heads, gate = self._gates[layer]
            if not torch.allclose(heads * gate, by_prompt(last.given), atol=1e-4):
                raise InputError(f"what ends the attention of block {layer} is not given heads times gate")
        self._ended[layer] = last
        return self._ended[layer]


@dataclass(frozen=True, eq=False)
class Last:
    """A call of the last projection in a mixer."""

    module: torch.nn.Module
    given: Tensor
    returned: Tensor


@contextmanager
def _noting_last(mixers: Mapping[int, torch.nn.Module]) -> Iterator[dict[Any, Last]]:
    """The last call of a projection in each mixer while it holds, by ``("last", block)``."""
    held: dict[Any, Last] = {}
    with ExitStack() as stack:
        for number, mixer in mixers.items():

            def note(part: torch.nn.Module, args: Any, output: Any, number: int = number) -> None:
                if args and isinstance(output, Tensor):
                    held["last", number] = Last(part, args[0].clone(), output.clone())

            for part in mixer.modules():
                weight = getattr(part, "weight", None)
                if part is not mixer and isinstance(weight, Tensor) and weight.ndim == 2:
                    stack.callback(part.register_forward_hook(note).remove)
        yield held


def _is_gated(host: Standard) -> bool:
    gate = host.values().get("attention_gate")
    return gate is not None and gate.reason(host) is None


def _side_by_side(held: Tensor) -> Tensor:
    """Heads before positions, laid side by side: ``[batch, positions, heads * width]``."""
    return held.transpose(1, 2).flatten(2)


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


def _rows(part: Part, output: Any, rows: Tensor) -> Any:
    """What a module returned for the first of two prompts, at some positions only, in the same form."""
    held = by_prompt(part.get(output))[0]
    return _like(part, output, held.index_select(0, rows.to(held.device)))


def _like(part: Part, output: Any, vectors: Tensor) -> Any:
    """What a module returns, with some vectors ``[rows, width]`` of one prompt in the place of all."""
    held = part.get(output)
    return part.put(output, vectors.to(held) if held.ndim == 2 else vectors.to(held)[None])


def by_prompt(held: Tensor) -> Tensor:
    """What a module returned for two prompts, ``[2, positions, width]``; a mixture of experts returns tokens flat."""
    return held.reshape(2, -1, held.shape[-1])
