"""Every value of a model, in the order in which the model computes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere.components import NoVision, Standard
from belvedere.components.layer import MIXERS, Block
from belvedere.descriptors import KeptValue, Value

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Place", "blocks_of", "every_value", "kind", "parts_of", "some"]

#: Values of a host that come after everything else of it.
ROOT_LAST = ("logits", "next_token_probs")
TOWER_LAST = ("tower_output", "merged_patches", "image_features_per_image", "image_features", "video_features")
BLOCK_LAST = ("per_layer_output", "layer_output", "deepstack_output")


@dataclass(frozen=True, eq=False)
class Place:
    """A value on an envoy.

    Args:
        host: The envoy.
        found: The value's descriptor.
    """

    host: Standard
    found: Value[Any]

    @property
    def name(self) -> str:
        """The value's name."""
        return str(self.found.name)

    @property
    def path(self) -> str:
        """The standard path of the value."""
        return self.found.path(self.host)

    @property
    def reason(self) -> str | None:
        """Why it cannot be had, or ``None``."""
        return self.found.reason(self.host)

    @property
    def block(self) -> Block | None:
        """The block that it is in; ``None`` for a value of the root or of the tower as a whole."""
        above: Any = self.host
        while above is not None and not isinstance(above, Block):
            above = above.host
        return above

    def idle(self) -> bool:
        """Inside a trace: whether its input does not make the value; what the root is called with is always there."""
        kept = isinstance(self.found, KeptValue) and self.found.location(self.host) == f"{self.host.root.path}.input"
        return not kept and self.host.idle(self.name) is not None

    def read(self) -> Any:
        """The value, inside a trace."""
        return getattr(self.host, self.name)

    def write(self, written: Any) -> None:
        """Write it, inside a trace."""
        setattr(self.host, self.name, written)


def every_value(model: StandardizedTransformer) -> Iterator[Place]:
    """Every value of the model, those that it lacks among them."""
    vision: Any = model.vision
    seen = not isinstance(vision, NoVision)
    # Where nothing is scattered, the text model embeds the prompt itself, when the tower is done.
    late = ("token_embeddings",) if seen and model.scatter is None else ()
    before, after = _own(model, (*late, *ROOT_LAST))
    yield from before
    if seen:
        tower_before, tower_after = _own(vision, TOWER_LAST)
        yield from tower_before
        for block in blocks_of(vision):
            yield from _of_block(block)
        yield from tower_after
    yield from (one for one in after if one.name in late)
    for block in model.layers:
        yield from _of_block(block)
    yield from (one for one in after if one.name not in late)


def blocks_of(stack: Any) -> list[Block]:
    """The blocks of a tower, list after list."""
    return [] if isinstance(stack, NoVision) else [block for name in stack.LISTS for block in getattr(stack, name)]


def parts_of(block: Block) -> list[Standard]:
    """What mixes a block's positions, and its MLP."""
    found = (vars(block).get(name) for name in (*MIXERS, "mlp"))
    return [part for part in found if isinstance(part, Standard)]


def kind(block: Block) -> tuple[Any, ...]:
    """What sets a block apart from others of its stack: its own class, its parts' and which of its values are there."""
    parts = (block, *parts_of(block))
    return (
        block.LIST,
        *((type(part), tuple(found.reason(part) for found in part.values().values())) for part in parts),
    )


def some(blocks: list[Block]) -> list[Block]:
    """All blocks of a small stack; of a larger one the first, the middle and the last of each kind."""
    if len(blocks) <= 4:
        return blocks
    alike: dict[Any, list[Block]] = {}
    for block in blocks:
        alike.setdefault(kind(block), []).append(block)
    chosen = {id(each[place]) for each in alike.values() for place in (0, len(each) // 2, -1)}
    return [block for block in blocks if id(block) in chosen]


def _own(host: Standard, last: tuple[str, ...]) -> tuple[list[Place], list[Place]]:
    places = [Place(host, found) for found in host.values().values()]
    places.sort(key=lambda one: not _at_the_start(one))
    return [one for one in places if one.name not in last], [one for one in places if one.name in last]


def _at_the_start(place: Place) -> bool:
    """Whether a value is kept of what its host is called with, rather than of an operation further on."""
    kept = isinstance(place.found, KeptValue) and place.reason is None
    return kept and ".source." not in place.found.location(place.host)


def _of_block(block: Block) -> Iterator[Place]:
    before, after = _own(block, BLOCK_LAST)
    yield from before
    for part in parts_of(block):
        yield from (Place(part, found) for found in part.values().values())
    yield from after
