"""A wrapper without a tower: one module embeds the patches and places them, and no block follows (Gemma 4 unified)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from belvedere.components.reach import unseen
from belvedere.components.vision import Vision
from belvedere.descriptors import value
from belvedere.errors import Unavailable
from belvedere.layouts import Patches

__all__ = ["BlocklessVision"]

NO_BLOCKS = "this wrapper has no tower whose blocks attend, its patches are embedded and projected"


class BlocklessVision(Vision):
    """The module that embeds patches, in the place of a tower; ``vision.layers`` is empty.

    One row of patches per picture, in raster order, padded to one length; each patch's column and row is in the
    encoding's ``image_position_ids``, -1 on padding. The projector takes all rows, and the padding is dropped after it.
    """

    @property
    def config(self) -> Any:
        """The wrapper's config of what it sees; the module carries none."""
        return self.root.source_config.vision_config

    @property
    def layers(self) -> list[Any]:
        """No blocks."""
        return []

    @value("patch_ln2.output", unavailable=unseen, description="one row per patch")
    def patch_embeddings(self, held: Tensor) -> Patches:
        """One row per patch as the projection and the norm after it give it, before positions."""
        return held

    @value(":pos_embs=.output", unavailable=unseen, description="what is added to the patches")
    def position_embeddings(self, held: Tensor) -> Patches:
        """The sum of two learned embeddings, of a patch's column and of its row; zero on padding."""
        return held

    @property
    def vision_hidden_size(self) -> int:
        """The width of the patches' rows."""
        return int(self.config.mm_embed_dim)

    @property
    def patch_size(self) -> int:
        """The side of a square patch, in pixels."""
        return int(self.config.model_patch_size)

    @property
    def image_size(self) -> int:
        """Not one size: pictures keep their proportions."""
        raise Unavailable(
            "vision.image_size",
            "this wrapper takes pictures of any resolution; each patch's place is in the encoding, image_position_ids",
        )

    @property
    def num_heads(self) -> int:
        """None: nothing attends."""
        raise Unavailable("vision.num_heads", f"{NO_BLOCKS}; read patch_embeddings and tower_output")

    @property
    def head_dim(self) -> int:
        """None: nothing attends."""
        raise Unavailable("vision.head_dim", f"{NO_BLOCKS}; read patch_embeddings and tower_output")

    @property
    def intermediate_size(self) -> int:
        """None: there is no MLP."""
        raise Unavailable("vision.intermediate_size", f"{NO_BLOCKS}; read patch_embeddings and tower_output")
