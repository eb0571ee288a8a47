"""Idefics 2's tower (`Idefics2VisionTransformer`): SigLIP at any size, pictures padded to the largest's grid."""

from belvedere.families.facts import Rows
from belvedere.families.towers.siglip_vision_model import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]

ROWS = Rows(whole=True)
