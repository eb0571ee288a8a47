"""Clause 1: what stands in the text stream at the image tokens is what the tower hands over."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from belvedere.components import NoVision
from belvedere.verifying import raw
from belvedere.verifying.bench import Bench
from belvedere.verifying.clause import Answer, answered, counted, silent
from belvedere.verifying.report import Difference

__all__ = ["scatter_identity"]

WHERE = "layers[0].layer_input"


def scatter_identity(bench: Bench) -> Answer:
    """`image_features`, read where they are written, against a PyTorch hook on the first block."""
    reason = _reason(bench)
    if reason is not None:
        return silent(reason)
    vision, first = bench.model.vision, bench.model.layers[0]

    def read() -> list[Any]:
        mask = vision.image_token_mask
        features = vision.image_features.clone()
        return [mask, features, first.layer_input.clone()]

    mask, features, entering = bench.trace(read)
    with raw.watching({0: (first._module, lambda call: raw.entering(*call))}, {}, torch.clone) as seen:
        bench.plain()
    if int(mask.sum()) != len(features):
        what = f"the prompt has {int(mask.sum())} image tokens, and image_features has {len(features)} rows"
        return answered("image tokens against rows", [Difference(where="vision.image_features", what=what)])
    differences = _rows(f"{WHERE}, as a trace reads it", entering[mask], features)
    differences += _rows(f"{WHERE}, as a PyTorch hook sees it", seen[0][mask.to(seen[0].device)], features)
    return answered(f"{counted(len(features), 'image token')}, bit for bit", differences)


def _reason(bench: Bench) -> str | None:
    """Why nothing is scattered."""
    vision = bench.model.vision
    if isinstance(vision, NoVision):
        return str(vision.no_images())
    reasons = (vision.values()[name].reason(vision) for name in ("image_token_mask", "image_features"))
    found = next((reason for reason in reasons if reason is not None), None)
    return found if found is not None or bench.shows_picture else "the input shows no picture"


def _rows(where: str, stream: Tensor, features: Tensor) -> list[Difference]:
    """The image tokens at which the stream is not the features."""
    features = features.to(stream.device)
    if stream.shape != features.shape:
        return [Difference(where=where, what=f"is {tuple(stream.shape)} there and image_features {features.shape}")]
    wrong = (stream != features).any(-1).nonzero().flatten().tolist()
    if not wrong:
        return []
    what = f"{counted(len(wrong), 'image token')} of {len(features)}, the first of them {wrong[0]}, not image_features"
    by = float((stream.float() - features.float()).abs().amax())
    return [Difference(where=where, what=what, by=by, tolerance=0.0)]
