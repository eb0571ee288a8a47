"""Values that follow from the input or from other values, by hand."""

from __future__ import annotations

from typing import Any

import torch

from belvedere.verifying.bench import Bench, near
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place

__all__ = ["BY_HAND", "by_hand"]

#: The names of these values.
BY_HAND = ("input_size", "image_token_mask", "video_token_mask", "next_token_probs")


def by_hand(bench: Bench, places: list[Place]) -> list[Difference]:
    """Those of some values that are not what a hand calculation gives."""
    held = bench.trace(lambda: [place.read() for place in places])
    return [one for place, value in zip(places, held, strict=True) for one in _one(bench, place, value)]


def _one(bench: Bench, place: Place, held: Any) -> list[Difference]:
    ids = bench.encoding["input_ids"]
    wrong = Difference(where=place.path, what="is not what a hand calculation gives")
    if place.name == "input_size":
        return [] if tuple(held) == tuple(ids.shape) else [wrong]
    if place.name == "next_token_probs":
        found = near(held, _after(bench))
        return [] if found is None else [wrong]
    token = bench.model.placeholder(place.name.partition("_")[0])
    return [] if torch.equal(held, ids == token) else [wrong]


def _after(bench: Bench) -> torch.Tensor:
    """The softmax of the plain logits at each prompt's last token that is no padding."""
    ids, mask = bench.encoding["input_ids"], bench.encoding.get("attention_mask")
    mask = torch.ones_like(ids) if mask is None or mask.shape != ids.shape else mask
    last = [int(row.nonzero().max()) for row in mask]
    return torch.stack([row[place].softmax(-1) for row, place in zip(bench.logits, last, strict=True)])
