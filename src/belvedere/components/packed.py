"""A tower that keeps every picture's patches in one row, such as the Qwen ViT."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from belvedere.components.reach import as_patches, own_runs, unseen
from belvedere.components.vision import Vision
from belvedere.descriptors import KeptValue, absent, as_held, value
from belvedere.layouts import MergedPatches, Patches, Rotary
from belvedere.select import Argument, First

__all__ = ["SEGMENTS", "QwenVision", "RotaryQwenVision"]


#: The value `segments` of a tower that splits its row at bounds which it computes from the grids.
SEGMENTS: dict[str, Any] = {
    "at": ":get_vision_attention_seqlens().output",
    "kind": KeptValue,
    "select": First(),
    "unavailable": unseen,
    "read_only": "the forward splits by its own bounds; write segment_probabilities of a block",
    "description": "the runs of patches that attend to each other",
}


class QwenVision(Vision):
    """The Qwen ViT (Qwen2-VL to Qwen3.5): one row of patches in merge-block order, a merger as its last module.

    Row order: the patches of each ``merge x merge`` block stand together, blocks in raster order, frames and pictures
    one after the other. Every value of the patch axis is served as ``[1, patches, ...]``, a view of that row.
    """

    @value(":pos_embeds=.output", restore=as_held, unavailable=unseen, description="what is added to the patches")
    def position_embeddings(self, held: Tensor) -> Patches:
        """The learned position table at each patch, resampled to its picture's grid; added to `patch_embeddings`."""
        return as_patches(held)

    @value(":position_embeddings=[-1].output", unavailable=unseen, description="cos and sin that the blocks get")
    def rotary(self, held: Rotary) -> Rotary:
        """The cos and sin of each patch's rotation, by row and column: two tensors ``[patches, head_dim]``.

        In the order of the blocks' own rows, which on a windowed tower is that of the windows.
        """
        return held

    @value(**SEGMENTS)
    def segments(self, bounds: Tensor) -> list[slice]:
        """The attending segments of the row: one for each frame; a block with windows splits them further."""
        return own_runs(self, bounds)

    @value(
        "merger.linear_fc1.input",
        select=Argument(0),
        unavailable=unseen,
        description="what the merger's MLP receives",
    )
    def merged_patches(self, held: Tensor) -> MergedPatches:
        """Each merge block's patches, normed and laid side by side: one row per image token."""
        return held

    @property
    def merged_hidden_size(self) -> int:
        """The width of `merged_patches`: a merge block's patches side by side."""
        return self.vision_hidden_size * self.spatial_merge_size**2


class RotaryQwenVision(QwenVision):
    """A Qwen ViT without a position table, whose merger's MLP is a sequence (Qwen2-VL, Qwen2.5-VL)."""

    position_embeddings: Any = absent(
        "position_embeddings",
        "this tower adds no positions to its patches, its blocks rotate by them; read rotary",
        "what is added to the patches",
    )

    @value("merger.mlp.input", select=Argument(0), unavailable=unseen, description="what the merger's MLP receives")
    def merged_patches(self, held: Tensor) -> MergedPatches:
        """Each merge block's patches, normed and laid side by side: one row per image token, in the tower's order."""
        return held
