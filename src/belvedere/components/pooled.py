"""A tower that pads every picture to one number of patches, and pools what leaves its last block (Gemma 4)."""

from __future__ import annotations

from torch import Tensor

from belvedere.components.reach import unseen
from belvedere.components.standard import Standard
from belvedere.components.vision import Vision
from belvedere.descriptors import value
from belvedere.errors import Unavailable
from belvedere.layouts import MergedPatches, PaddedRotary, Patches
from belvedere.select import Argument

__all__ = ["PatchEmbedder", "PooledVision"]


class PatchEmbedder(Standard):
    """The module that projects the patches and adds their positions, which are the tower's `position_embeddings`."""

    OPERATIONS = ("position_embeddings=",)


def added_positions(host: Vision) -> tuple[Standard, str]:
    """Where the positions are, before they are added."""
    return host.patch_embedder, ":position_embeddings=.output"


def projector_input(host: Vision) -> tuple[Standard, str]:
    """Where the projector takes what the tower returns."""
    return host.root.projector, "input"


class PooledVision(Vision):
    """A tower of any resolution that keeps one row of patches per picture, padded to one length (Gemma 4).

    The patch axis is in raster order with the padding last; each patch's column and row is in the encoding's
    ``image_position_ids``, -1 on padding. Attention does not see the padding, and pooling drops it.
    """

    AXES = {**Vision.AXES, "merged_hidden": "vision_hidden_size"}

    @value(added_positions, unavailable=unseen, description="what is added to the patches")
    def position_embeddings(self, held: Tensor) -> Patches:
        """The sum of two learned embeddings, of a patch's column and of its row; zero on padding."""
        return held

    @value("encoder.rotary_emb.output", unavailable=unseen, description="cos and sin that the blocks get")
    def rotary(self, held: PaddedRotary) -> PaddedRotary:
        """The cos and sin of each patch's rotation, by column and row: two tensors ``[images, patches, head_dim]``."""
        return held

    @value(
        projector_input,
        select=Argument(0, "inputs_embeds"),
        unavailable=unseen,
        description="pooled patches that the projector receives",
    )
    def merged_patches(self, held: Tensor) -> MergedPatches:
        """The mean over each block of ``spatial_merge_size`` patches a side, scaled: one row per image token."""
        return held

    @property
    def image_size(self) -> int:
        """Not one size: pictures keep their proportions."""
        raise Unavailable(
            "vision.image_size",
            "this tower takes pictures of any resolution; each patch's place is in the encoding, image_position_ids",
        )

    @property
    def spatial_merge_size(self) -> int:
        """How many patches a side are pooled into one image token."""
        return int(self.config.pooling_kernel_size)
