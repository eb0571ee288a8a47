"""The tower of GLM's vision models: a Qwen ViT with a final norm, whose patches a convolution folds."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from belvedere.components.packed import RotaryQwenVision
from belvedere.components.reach import as_patches, unseen
from belvedere.components.standard import Standard
from belvedere.descriptors import Value, as_held, value
from belvedere.layouts import MergedPatches, Patches
from belvedere.select import Argument

__all__ = ["GlmPositions", "GlmVision", "PlacedGlmVision"]


class GlmVision(RotaryQwenVision):
    """A packed tower whose merge blocks become one row by a convolution, before the merger (GLM-OCR)."""

    @value("merger.input", select=Argument(0), unavailable=unseen, description="what the merger receives")
    def merged_patches(self, held: Tensor) -> MergedPatches:
        """Each merge block's patches, normed and folded into one row by a convolution: one row per image token."""
        return held

    @property
    def merged_hidden_size(self) -> int:
        """The width of `merged_patches`, that of the text stream."""
        return int(self.config.out_hidden_size)


class GlmPositions(Standard):
    """The module that adds the position table to the patches; its value is the tower's."""

    OPERATIONS = ("adapted_pos_embed=",)


def placed(host: Any) -> tuple[Standard, str]:
    """Where the resampled position table is served."""
    return host.embeddings, ":adapted_pos_embed=.output"


class PlacedGlmVision(GlmVision):
    """`GlmVision` with a position table, added to the normed patches (GLM-4.1V, GLM-4.5V)."""

    @value(placed, restore=as_held, unavailable=unseen, description="what is added to the normed patches")
    def position_embeddings(self, held: Tensor) -> Patches:
        """The learned position table at each patch, resampled to its picture's grid.

        Added to `patch_embeddings` after these have passed ``post_conv_layernorm``.
        """
        return as_patches(held)

    @classmethod
    def values(cls) -> dict[str, Value[Any]]:
        """The tower's values; this forward makes the rotary tables before it adds the positions."""
        found = super().values()
        names = [name for name in found if name != "rotary"]
        names.insert(names.index("position_embeddings"), "rotary")
        return {name: found[name] for name in names}

    @property
    def intermediate_size(self) -> int:
        """The inner width of each block's MLP; the config's ``intermediate_size`` is the merger's."""
        return int(self.config.out_hidden_size)
