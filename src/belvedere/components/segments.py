"""Attention called once per picture, frame or window, on a tower that keeps every picture's patches in one row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from belvedere.components.attention import Mixer
from belvedere.components.pattern import Call, Softmax, pattern_value
from belvedere.components.reach import as_patches, own_patches, own_runs, unseen
from belvedere.components.standard import Standard
from belvedere.descriptors import KeptValue, absent, as_held, value
from belvedere.layouts import Patches, SegmentPatterns, VisionHeadOutputs, VisionKeys, VisionQueries, VisionValues
from belvedere.select import Argument, First

__all__ = ["PER_IMAGE", "QwenVisionAttention"]

#: The reason why a packed tower has no one pattern.
PER_IMAGE = (
    "this tower's attention runs once per picture, frame or window, so no one tensor is the block's pattern; "
    "read segment_probabilities"
)


def arguments(host: QwenVisionAttention) -> tuple[Standard, str]:
    """Where all segments' queries, keys and values are together: before the calls, or in flash attention's one."""
    return host, ":attention_interface().input" if host.is_flash else ":zip().input"


def flat_input(host: Standard) -> str:
    """Where the head outputs are served, side by side: at the output projection."""
    return f"{host.get('proj').path}.input"


def side_by_side(host: QwenVisionAttention, patterns: Any, served: Any) -> Any:
    """The output projection's input under written patterns."""
    calls = host.calls(served)
    mixed = [call.run(Softmax(probabilities=pattern[None]))[0] for call, pattern in zip(calls, patterns, strict=True)]
    return (torch.cat(mixed, dim=1).flatten(2)[0],), {}


def heads_side_by_side(host: Mixer, edited: Any, held: Any) -> Any:
    """The way back for heads read apart."""
    return edited.transpose(1, 2).reshape(held.shape)


class QwenVisionAttention(Mixer):
    """Attention of the Qwen ViT (Qwen2-VL to Qwen3.5) and its kin.

    Read in the order of the forward: queries, keys, values, patterns, head outputs, and last what is added. `segments`
    can be read at any point once the attention has begun.
    """

    OPERATIONS = ("zip()", "attention_interface()")

    @property
    def is_flash(self) -> bool:
        """Whether the model runs flash attention, which takes all segments in one call."""
        from transformers.utils.generic import is_flash_attention_requested

        return bool(is_flash_attention_requested(self._module.config))

    @value(
        "input",
        kind=KeptValue,
        select=Argument(1, "cu_seqlens"),
        unavailable=unseen,
        read_only="the forward splits by its own bounds; write segment_probabilities",
        description="the runs of patches that attend to each other",
    )
    def segments(self, bounds: Tensor) -> list[slice]:
        """The attending segments of this block, as slices of the patch axis, split at the attention's own bounds."""
        return own_runs(self, bounds)

    @value(":query_states=[-1].output", unavailable=unseen, description="queries, rotated, of the whole row")
    def attention_queries(self, held: Tensor) -> VisionQueries:
        """The queries of every patch in the row, after rotary embedding: ``[1, heads, patches, head_dim]``."""
        return held

    @value(":key_states=[-1].output", unavailable=unseen, description="keys, rotated, of the whole row")
    def attention_keys(self, held: Tensor) -> VisionKeys:
        """The keys of every patch in the row, after rotary embedding: ``[1, heads, patches, head_dim]``."""
        return held

    @value(":value_states=[-1].output", unavailable=unseen, description="values of the whole row")
    def attention_values(self, held: Tensor) -> VisionValues:
        """The values of every patch in the row: ``[1, heads, patches, head_dim]``."""
        return held

    attention_scores = absent("attention_scores", PER_IMAGE, "what the softmax is taken of")
    attention_probabilities = absent("attention_probabilities", PER_IMAGE, "the pattern")

    @pattern_value(
        arguments, result=flat_input, replace=side_by_side, description="the pattern of each segment", also=unseen
    )
    def segment_probabilities(self, served: Any) -> SegmentPatterns:
        """The pattern of each attending segment, ``[heads, n, n]``, split at the attention's own bounds.

        Per segment ``pattern @ values == head_outputs``. Recomputed under any attention implementation; an edit in
        place, a replaced entry and an assignment of the whole list all replace the block's head outputs.
        """
        return [call.probabilities()[0] for call in self.calls(served)]

    @value(
        "proj.input", select=Argument(0), restore=heads_side_by_side, unavailable=unseen, description="what heads read"
    )
    def attention_head_outputs(self, held: Tensor) -> VisionHeadOutputs:
        """``pattern @ values`` of every segment, before the output projection: ``[1, heads, patches, head_dim]``."""
        return held.view(1, held.shape[0], self.num_heads, -1).transpose(1, 2)

    @value("output", select=First(), restore=as_held, unavailable=unseen, description="what attention adds")
    def attention_output(self, held: Tensor) -> Patches:
        """What attention adds to the tower's stream."""
        return as_patches(held)

    def per_segment(self, value: torch.Tensor) -> list[torch.Tensor]:
        """Split a packed value at this block's segments.

        Args:
            value: Any value with this tower's patch axis: a stream ``[1, patches, ...]``, heads
                ``[1, heads, patches, ...]``, or a bare row ``[patches, ...]``.

        Returns:
            One view per segment, with its own patches on that axis.

        Raises:
            ValueError: No axis is as long as the row.
        """
        segments = self.segments
        length = segments[-1].stop if segments else 0
        for axis in (2, 1, 0) if value.ndim == 4 else (1, 0):
            if axis < value.ndim and value.shape[axis] == length:
                return list(torch.split(value, [run.stop - run.start for run in segments], dim=axis))
        raise ValueError(f"no axis of {tuple(value.shape)} is the row of {length} patches")

    def calls(self, served: Any) -> list[Call]:
        """One attention call per segment of the running invoke, from what `arguments` serves."""
        if self.is_flash:
            whole = Call.of(served)
            parts = [self.per_segment(tensor) for tensor in (whole.query, whole.key, whole.value)]
        else:
            parts = [self._own(list(tensors)) for tensors in served[0]]
        scaling = {"scaling": self._module.scaling, "is_causal": False}
        return [Call(self._module, q, k, v, None, scaling) for q, k, v in zip(*parts, strict=True)]

    def _own(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Those of the segments that the running invoke's pictures are in."""
        start, length = own_patches(self)
        if length is None:
            return tensors
        own, first = [], 0
        for tensor in tensors:
            if start <= first < start + length:
                own.append(tensor)
            first += tensor.shape[2]
        return own

    def _own_name(self) -> str:
        return "self_attn"
