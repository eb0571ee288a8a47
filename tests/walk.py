"""Every value of a model, in the order of the forward."""

from collections.abc import Iterator
from typing import Any

from belvedere.components import NoVision, Standard
from belvedere.components.layer import MIXERS
from belvedere.descriptors import KeptValue, Value

#: Values of the root and of a tower that come after its blocks.
ROOT_LAST = ("logits", "next_token_probs")
TOWER_LAST = ("tower_output", "merged_patches", "image_features_per_image", "image_features", "video_features")


def own(host: Standard, *last: str) -> tuple[list[tuple[Standard, Value]], list[tuple[Standard, Value]]]:
    values = [(host, found) for found in host.values().values()]
    values.sort(key=lambda pair: not isinstance(pair[1], KeptValue))
    return [pair for pair in values if pair[1].name not in last], [pair for pair in values if pair[1].name in last]


def of_block(block: Standard) -> Iterator[tuple[Standard, Value]]:
    before, after = own(block, "layer_output", "deepstack_output")
    yield from before
    for part in (*MIXERS, "mlp"):
        if part in vars(block):
            yield from ((getattr(block, part), found) for found in getattr(block, part).values().values())
    yield from after


def every_value(model: Any) -> Iterator[tuple[Standard, Value]]:
    """``(host, value)`` of the whole model, those that it lacks among them."""
    before, after = own(model, *ROOT_LAST)
    yield from before
    if not isinstance(model.vision, NoVision):
        tower_before, tower_after = own(model.vision, *TOWER_LAST)
        yield from tower_before
        for block in model.vision.layers:
            yield from of_block(block)
        yield from tower_after
    for block in model.layers:
        yield from of_block(block)
    yield from after


def available(model: Any) -> list[tuple[Standard, Value]]:
    return [(host, found) for host, found in every_value(model) if found.reason(host) is None]


def path(host: Standard, found: Value) -> str:
    return f"{host.name}.{found.name}".lstrip(".")
