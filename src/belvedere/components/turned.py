"""Llama 4's tower: CLS behind the patches, a table of positions and a rotation by complex numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from belvedere.components.reach import unseen
from belvedere.components.vision import Vision
from belvedere.descriptors import as_held, value
from belvedere.layouts import MergedPatches, PairedRotary
from belvedere.select import Argument

__all__ = ["TurnedVision"]


def as_complex(host: Any, edited: Any, held: Any) -> Tensor:
    """The way back for the cos and sin of complex numbers."""
    return torch.complex(*edited).reshape(held.shape)


class TurnedVision(Vision):
    """A tower that adds a table of positions, a bare parameter, and turns pairs of a head's numbers too (Llama 4)."""

    POSITIONS: ClassVar[str] = ":positional_embedding=.output"

    @value(
        "vision_adapter.mlp.fc1.input",
        select=Argument(0),
        restore=as_held,
        unavailable=unseen,
        description="what the adapter's MLP receives",
    )
    def merged_patches(self, held: Tensor) -> MergedPatches:
        """The patches of each block in one row per image token, as the MLP of the tower's own adapter receives them."""
        return held.flatten(0, -2)

    @property
    def merged_hidden_size(self) -> int:
        """The width of `merged_patches`: a block's patches side by side."""
        return self.vision_hidden_size * self.spatial_merge_size**2

    @value("rotary_embedding.output", restore=as_complex, unavailable=unseen, description="cos and sin of the rotation")
    def rotary(self, held: Tensor) -> PairedRotary:
        """The cos and sin by which each row is turned: two tensors ``[patches, head_dim / 2]``; CLS is not turned.

        Neighbouring numbers of a head are one pair, and share a column.
        """
        rows = held.flatten(0, -2)
        return rows.real.clone(), rows.imag.clone()
