"""SigLIP 2's tower (`Siglip2VisionModel`): pictures cut into patches beforehand, padded to one number of them."""

from belvedere.components import VISION_BLOCK, SlottedEmbeddings, SlottedVision
from belvedere.families.towers.siglip_vision_model import RENAME

__all__ = ["ENVOYS", "RENAME", "ROOT"]

ENVOYS = {**VISION_BLOCK, "embeddings": SlottedEmbeddings}
ROOT = SlottedVision
