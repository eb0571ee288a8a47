"""Every value of a model, in the order of the forward."""

from collections.abc import Iterator
from typing import Any

import torch

from belvedere.components import NoVision, Standard
from belvedere.components.layer import MIXERS
from belvedere.descriptors import KeptValue, Value

#: Values of the root and of a tower that come after its blocks.
ROOT_LAST = ("logits", "next_token_probs")
TOWER_LAST = ("tower_output", "merged_patches", "image_features_per_image", "image_features", "video_features")


def own(host: Standard, *last: str) -> tuple[list[tuple[Standard, Value]], list[tuple[Standard, Value]]]:
    values = [(host, found) for found in host.values().values()]
    values.sort(key=lambda pair: not _at_the_start(*pair))
    return [pair for pair in values if pair[1].name not in last], [pair for pair in values if pair[1].name in last]


def _at_the_start(host: Standard, found: Value) -> bool:
    """Whether a value is kept of what its host is called with, rather than of an operation further on."""
    return isinstance(found, KeptValue) and ".source." not in found.location(host)


def of_block(block: Standard) -> Iterator[tuple[Standard, Value]]:
    before, after = own(block, "per_layer_output", "layer_output", "deepstack_output")
    yield from before
    for part in (*MIXERS, "mlp"):
        if part in vars(block):
            yield from ((getattr(block, part), found) for found in getattr(block, part).values().values())
    yield from after


def every_value(model: Any) -> Iterator[tuple[Standard, Value]]:
    """``(host, value)`` of the whole model, those that it lacks among them."""
    seen = not isinstance(model.vision, NoVision)
    # Where nothing is scattered, the text model embeds the prompt itself, when the tower is done.
    late = ("token_embeddings",) if seen and model.scatter is None else ()
    before, after = own(model, *late, *ROOT_LAST)
    yield from before
    if seen:
        tower_before, tower_after = own(model.vision, *TOWER_LAST)
        yield from tower_before
        for listed in model.vision.LISTS:
            for block in getattr(model.vision, listed):
                yield from of_block(block)
        yield from tower_after
    yield from (pair for pair in after if pair[1].name in late)
    for block in model.layers:
        yield from of_block(block)
    yield from (pair for pair in after if pair[1].name not in late)


def available(model: Any) -> list[tuple[Standard, Value]]:
    return [(host, found) for host, found in every_value(model) if found.reason(host) is None]


def other(held: torch.Tensor) -> torch.Tensor:
    """Another value of the same kind: other numbers, or the same integers elsewhere."""
    return held * 0.5 + 0.25 if held.is_floating_point() else held.roll(1, dims=-1)


def running(model: Any) -> list[int]:
    """The numbers of the text blocks that run at all."""
    return [number for number, block in enumerate(model.layers) if block.support()["layer_input"] is None]


def path(host: Standard, found: Value) -> str:
    return f"{host.name}.{found.name}".lstrip(".")


def inside(vision: Any, number: int, value: str = "layer_output") -> tuple[Standard, str]:
    """A value of a tower's block, as host and name; of a tower without blocks, the stream that leaves it."""
    if not vision.num_layers:
        return vision, "tower_output"
    block = vision.layers[number]
    return (block if value == "layer_output" else block.self_attn), value
