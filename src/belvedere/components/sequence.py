"""Every value of a model in the order in which one forward makes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from belvedere.components.gathering import block_parts
from belvedere.components.reach import NoVision
from belvedere.descriptors import KeptValue

if TYPE_CHECKING:
    from belvedere.components.standard import Standard
    from belvedere.descriptors import Value

    Pair = tuple[Standard, Value[Any]]

__all__ = ["after_the_blocks", "sequence"]

#: The values of a host that come after the blocks, or the parts, that it holds.
ROOT_LAST = ("logits", "next_token_probs")
TOWER_LAST = ("tower_output", "merged_patches", "image_features_per_image", "image_features", "video_features")
BLOCK_LAST = ("per_layer_output", "layer_output", "deepstack_output")


def after_the_blocks(name: str) -> bool:
    """Whether a value of a host comes after what the host holds."""
    return name in (*ROOT_LAST, *TOWER_LAST, *BLOCK_LAST)


def sequence(root: Any) -> list[Pair]:
    """``(host, value)`` of a whole model, those that it lacks among them."""
    text = list(chain.from_iterable(map(_block, root.layers)))
    before, after = _around(root)
    if isinstance(root.vision, NoVision):
        return [*before, *text, *after]
    if root.scatter is None:
        # Where nothing is scattered, the text model embeds the prompt itself, when the tower is done.
        text = [*(pair for pair in before if pair[1].name == "token_embeddings"), *text]
        before = [pair for pair in before if pair[1].name != "token_embeddings"]
    return [*before, *_tower(root.vision), *text, *after]


def _tower(vision: Any) -> Iterator[Pair]:
    before, after = _around(vision)
    yield from before
    for name in vision.LISTS:
        yield from chain.from_iterable(map(_block, getattr(vision, name)))
    yield from after


def _block(block: Standard) -> Iterator[Pair]:
    before, after = _around(block)
    yield from before
    for part in block_parts(block)[1:]:
        yield from ((part, found) for found in part.values().values())
    yield from after


def _around(host: Standard) -> tuple[list[Pair], list[Pair]]:
    """A host's own values before what it holds and after it; what it is called with comes first."""
    pairs = sorted(((host, found) for found in host.values().values()), key=lambda pair: not _at_the_start(*pair))
    after = [pair for pair in pairs if after_the_blocks(str(pair[1].name))]
    return [pair for pair in pairs if pair not in after], after


def _at_the_start(host: Standard, found: Value[Any]) -> bool:
    """Whether a value is kept of what its host is called with, rather than of an operation further on."""
    return isinstance(found, KeptValue) and found.reason(host) is None and ".source." not in found.location(host)
