"""Idefics 3's tower (`Idefics3VisionTransformer`): SigLIP at any size, over tiles that prompts are cut into."""

from belvedere.families.towers.siglip_vision_model import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
