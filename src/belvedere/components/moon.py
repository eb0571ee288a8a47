"""MoonViT: a packed tower whose position table is resampled, whose blocks rotate too, and whose frames are pooled."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from belvedere.components.packed import SEGMENTS
from belvedere.components.reach import as_patches, own_runs, unseen
from belvedere.components.segments import QwenVisionAttention
from belvedere.components.standard import Standard
from belvedere.components.vision import Vision
from belvedere.descriptors import as_held, value
from belvedere.layouts import Patches, Rotary, VisionKeys, VisionQueries, VisionValues
from belvedere.select import Argument

__all__ = ["MoonPositions", "MoonVision", "MoonVisionAttention"]


class MoonPositions(Standard):
    """The module that adds its resampled position table to the patches."""

    OPERATIONS = ("pos.to()",)


class MoonVision(Vision):
    """MoonViT (Kimi K2.5): one row of patches, in raster order per frame, one segment per picture or video.

    Blocks of ``merge x merge`` patches become one image token; of a video, each block is averaged over the frames
    first. Every value of the patch axis is served as ``[1, patches, ...]``, a view of that row.
    """

    POSITIONS: ClassVar[str] = "patch_embed.pos_emb:pos.to().output"

    @value(
        "patch_embed.pos_emb.input",
        select=Argument(0, "hidden_states"),
        restore=as_held,
        unavailable=unseen,
        description="one row per patch",
    )
    def patch_embeddings(self, held: Tensor) -> Patches:
        """One row per patch as the convolution gives it, before positions are added."""
        return as_patches(held)

    @value("rotary_emb.output", unavailable=unseen, description="cos and sin that the blocks get")
    def rotary(self, held: Rotary) -> Rotary:
        """The cos and sin of each patch's rotation, by row and column: two tensors ``[patches, head_dim]``."""
        return held

    @value(**SEGMENTS)
    def segments(self, bounds: Tensor) -> list[slice]:
        """The attending segments of the row: one for each picture or video."""
        return own_runs(self, bounds)

    @property
    def spatial_merge_size(self) -> int:
        """How many patches a side are folded into one image token."""
        return int(self.config.merge_kernel_size[0])


class MoonVisionAttention(QwenVisionAttention):
    """Attention of MoonViT, called once per picture."""

    @value(":query_states=[1].output", unavailable=unseen, description="queries, rotated, of the whole row")
    def attention_queries(self, held: Tensor) -> VisionQueries:
        """The queries of every patch in the row, after rotary embedding: ``[1, heads, patches, head_dim]``."""
        return held

    @value(":key_states=[1].output", unavailable=unseen, description="keys, rotated, of the whole row")
    def attention_keys(self, held: Tensor) -> VisionKeys:
        """The keys of every patch in the row, after rotary embedding: ``[1, heads, patches, head_dim]``."""
        return held

    @value(":value_states=[1].output", unavailable=unseen, description="values of the whole row")
    def attention_values(self, held: Tensor) -> VisionValues:
        """The values of every patch in the row: ``[1, heads, patches, head_dim]``."""
        return held
