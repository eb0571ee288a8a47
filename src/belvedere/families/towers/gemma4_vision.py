"""Gemma 4's tower (`Gemma4VisionModel`): pictures padded to one length, norms around each part, a pooler at its end."""

from belvedere.components import VISION_BLOCK, PatchEmbedder, PooledVision, SandwichVisionLayer

RENAME = {"patch_embedder.input_proj": "patch_embed", "encoder.layers": "layers"}
ENVOYS = {**VISION_BLOCK, "patch_embedder": PatchEmbedder, "layers.*": SandwichVisionLayer}
ROOT = PooledVision
