"""Pixtral's tower: one packed row, one attention call under a mask that keeps pictures apart."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from belvedere.components.attention import result_location, written_probabilities
from belvedere.components.pattern import Call, pattern_value
from belvedere.components.reach import unseen
from belvedere.components.vision import Vision
from belvedere.components.vision_block import VisionAttention
from belvedere.descriptors import KeptValue, absent, value
from belvedere.layouts import Patches, Rotary, SegmentPatterns
from belvedere.select import Argument

__all__ = ["PixtralVision", "PixtralVisionAttention"]


class PixtralVision(Vision):
    """Pixtral's tower (`PixtralVisionModel`): every picture's patches in one row, in raster order; no final norm."""

    @value("ln_pre.input", select=Argument(0), unavailable=unseen, description="one row per patch")
    def patch_embeddings(self, held: Tensor) -> Patches:
        """The row of patches as it enters the first norm: the convolution's grids, cut to each picture and packed."""
        return held

    position_embeddings: Any = absent(
        "position_embeddings",
        "this tower adds no positions to its patches, its blocks rotate by them; read rotary",
        "what is added to the patches",
    )

    @value("patch_positional_embedding.output", unavailable=unseen, description="cos and sin that the blocks get")
    def rotary(self, held: Rotary) -> Rotary:
        """The cos and sin of each patch's rotation, by row and column: two tensors ``[patches, head_dim]``."""
        return held

    @value(
        "input",
        kind=KeptValue,
        select=Argument(0, "pixel_values"),
        unavailable=unseen,
        read_only="the forward masks by its own sizes; write segment_probabilities of a block",
        description="the runs of patches that attend to each other",
    )
    def segments(self, pixels: Tensor) -> list[slice]:
        """The attending segments of the row: one for each picture."""
        return self.runs()

    def runs(self) -> list[slice]:
        """Each picture's patches in the row of the running invoke."""
        counts = [count for shown in self.pictures() for count in shown.patches]
        return [slice(first, last) for first, last in pairwise(accumulate(counts, initial=0))]


def side_by_side(host: PixtralVisionAttention, patterns: Any, served: Any) -> Any:
    """What the interface returns under written patterns: the whole row's, with nothing between pictures."""
    whole = torch.zeros_like(Call.of(served).probabilities())
    for run, pattern in zip(host.runs(), patterns, strict=True):
        whole[0, :, run, run] = pattern
    return written_probabilities(host, whole, served)


class PixtralVisionAttention(VisionAttention):
    """Attention over Pixtral's packed row. `attention_probabilities` is whole, and zero between pictures."""

    @pattern_value(
        ":attention_interface().input",
        result=result_location,
        replace=side_by_side,
        description="the pattern of each picture",
        also=unseen,
    )
    def segment_probabilities(self, served: Any) -> SegmentPatterns:
        """The pattern of each picture, ``[heads, n, n]``: the blocks on the diagonal of `attention_probabilities`."""
        whole = Call.of(served).probabilities()
        return [whole[0, :, run, run].clone() for run in self.runs()]

    def runs(self) -> list[slice]:
        """Each picture's patches in the row."""
        tower = self.layer.stack
        assert isinstance(tower, PixtralVision), "this attention is only built inside Pixtral's tower"
        return tower.runs()
