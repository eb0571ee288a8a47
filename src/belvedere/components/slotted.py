"""A tower of pictures of any size, each cut into patches beforehand and padded to one number of them (SigLIP 2).

Row order: each picture's patches in raster order, then rows that pad it and that no patch attends to. The encoding says
how many rows and columns of patches each picture has (``spatial_shapes``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from belvedere.components.reach import as_patches, unseen
from belvedere.components.standard import Standard
from belvedere.components.vision import Vision, folded_patches, unfolded
from belvedere.descriptors import as_held, value
from belvedere.layouts import MergedPatches, Patches
from belvedere.select import FirstArgument

__all__ = ["SlottedEmbeddings", "SlottedVision"]


class SlottedEmbeddings(Standard):
    """The embeddings of a padded tower, whose forward resamples the position table to each picture's grid."""

    OPERATIONS = ("resized_positional_embeddings=",)

    def _own_name(self) -> str:
        return "embeddings"


def resampled(host: Vision) -> tuple[Standard, str]:
    """Where the position table is, resampled to each picture."""
    return host.embeddings, ":resized_positional_embeddings=.output"


def in_slots(host: SlottedVision, edited: Tensor, held: Tensor) -> Tensor:
    """The way back for patches read without the slots that pad them."""
    whole = held.flatten(0, -2).clone()
    whole[host.is_token(len(whole)).to(whole.device)] = edited
    return whole.reshape(held.shape)


class SlottedVision(Vision):
    """A tower whose pictures are padded to one number of patches, with a position table resampled to each."""

    @value(resampled, restore=as_held, unavailable=unseen, description="what is added to the patches")
    def position_embeddings(self, held: Tensor) -> Patches:
        """The learned position table, resampled to each picture's grid; padding rows have its first position."""
        return as_patches(held)

    @value(
        folded_patches,
        select=FirstArgument(),
        restore=in_slots,
        unavailable=unfolded,
        description="what the projector's MLP receives where patches are folded",
    )
    def merged_patches(self, held: Tensor) -> MergedPatches:
        """The patches of each block side by side, one row per image token, without the slots that pad each picture.

        A copy: edits and assignment land, and a gradient reaches it once it is written back.
        """
        rows = held.flatten(0, -2)
        return rows[self.is_token(len(rows)).to(rows.device)]

    def is_token(self, count: int) -> Tensor:
        """Which of ``count`` slots of the projector are an image token, and not padding behind a picture's tokens."""
        shown = self.pictures()
        tokens = [number for one in shown for number in one.pieces]
        several = getattr(self.interleaver.batcher, "batching", False)
        fold = self.merged_hidden_size // self.vision_hidden_size
        # Beams show each picture several times; several invokes are padded to the largest of all.
        slots = count // len(tokens) if several else shown[0].patches[0] // shown[0].tiles[0] // fold
        mask: Tensor = torch.arange(slots) < torch.tensor(tokens * (count // slots // len(tokens)))[:, None]
        return mask.flatten()
