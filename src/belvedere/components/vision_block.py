"""A block of a tower that keeps one row per picture, and its attention and MLP."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from belvedere.components.attention import Mixer, result_location, written_probabilities, written_scores
from belvedere.components.layer import Block, added
from belvedere.components.pattern import Call, pattern_value
from belvedere.components.reach import as_patches, taken, unseen
from belvedere.components.standard import Standard
from belvedere.descriptors import as_held, heads_first, value
from belvedere.layouts import (
    Patches,
    SegmentPatterns,
    VisionHeadOutputs,
    VisionKeys,
    VisionPattern,
    VisionQueries,
    VisionValues,
)
from belvedere.select import Argument, First, FirstArgument

__all__ = ["VisionAttention", "VisionLayer", "VisionMlp"]


class VisionLayer(Block):
    """A tower block. ``layer_input + attention_output + mlp_output == layer_output``."""

    self_attn: VisionAttention
    mlp: VisionMlp

    @value("input", select=FirstArgument(), restore=as_held, unavailable=unseen, description="the stream entering")
    def layer_input(self, held: Tensor) -> Patches:
        """The tower's stream entering this block; a view, so edits in place and assignment both reach the block.

        It is the tensor that the block before returned, so an edit in place is also seen by whoever else reads that one
        (LLaVA takes its features from there); an assignment is this block's alone.
        """
        return as_patches(held)

    def unread(self) -> str | None:
        """Why nothing of this block reaches the logits: the wrapper takes the stream of an earlier one."""
        tower = self.stack
        last = getattr(tower, "last_read", None)
        if last is None or self.number <= last:
            return None
        return f"nothing reads this block: the wrapper takes {taken(last)}; write that one"

    @value("output", select=First(), restore=as_held, unavailable=unseen, description="the stream leaving")
    def layer_output(self, held: Tensor) -> Patches:
        """The tower's stream leaving this block; a view, so edits in place and assignment both reach the next block."""
        return as_patches(held)


class VisionAttention(Mixer):
    """Attention of a tower that keeps one row per picture, such as CLIP's."""

    @value(
        ":attention_interface().input",
        select=Argument(1, "query"),
        unavailable=unseen,
        description="queries that attend",
    )
    def attention_queries(self, held: Tensor) -> VisionQueries:
        """The queries that attend. The interface call's own argument."""
        return held

    @value(
        ":attention_interface().input", select=Argument(2, "key"), unavailable=unseen, description="keys attended to"
    )
    def attention_keys(self, held: Tensor) -> VisionKeys:
        """The keys that are attended to."""
        return held

    @value(":attention_interface().input", select=Argument(3, "value"), unavailable=unseen, description="values mixed")
    def attention_values(self, held: Tensor) -> VisionValues:
        """The values that the pattern mixes."""
        return held

    @pattern_value(
        ":attention_interface().input",
        result=result_location,
        replace=written_scores,
        description="what the softmax is of",
        also=unseen,
    )
    def attention_scores(self, served: Any) -> VisionPattern:
        """Scaled and masked scores: ``softmax(attention_scores) == attention_probabilities``; recomputed, writable."""
        return Call.of(served).scores()

    @pattern_value(
        ":attention_interface().input",
        result=result_location,
        replace=written_probabilities,
        description="the pattern",
        also=unseen,
    )
    def attention_probabilities(self, served: Any) -> VisionPattern:
        """The pattern over a picture's rows, CLS among them; recomputed from the call's arguments, writable.

        ``attention_probabilities @ attention_values == attention_head_outputs``, whatever kernel the model runs.
        """
        return Call.of(served).probabilities()

    @pattern_value(
        ":attention_interface().input",
        result=result_location,
        replace=lambda host, patterns, served: written_probabilities(host, torch.stack(list(patterns)), served),
        description="the pattern of each picture",
        also=unseen,
    )
    def segment_probabilities(self, served: Any) -> SegmentPatterns:
        """The pattern of each picture, ``[heads, n, n]``: on this tower a picture is a segment."""
        pattern = Call.of(served).probabilities()
        return [pattern[number] for number in range(len(pattern))]

    @value(
        ":attention_interface().output",
        select=First(),
        restore=heads_first,
        unavailable=unseen,
        description="what each head reads out",
    )
    def attention_head_outputs(self, held: Tensor) -> VisionHeadOutputs:
        """``attention_probabilities @ attention_values``, before the output projection."""
        return held.transpose(1, 2)

    @value(added, select=First(), restore=as_held, unavailable=unseen, description="what attention adds")
    def attention_output(self, held: Tensor) -> Patches:
        """What attention adds to the tower's stream."""
        return as_patches(held)

    def _own_name(self) -> str:
        return "self_attn"


class VisionMlp(Standard):
    """An MLP of a tower block."""

    @value(added, select=First(), restore=as_held, unavailable=unseen, description="what the MLP adds")
    def mlp_output(self, held: Tensor) -> Patches:
        """What the MLP adds to the tower's stream."""
        return as_patches(held)

    def _own_name(self) -> str:
        return "mlp"
