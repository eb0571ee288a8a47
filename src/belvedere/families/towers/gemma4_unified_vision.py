"""Gemma 4 unified's patches (`Gemma4UnifiedVisionEmbedder`): normed, projected and placed; no block of a tower."""

from belvedere.components import BlocklessVision, Standard

RENAME = {"patch_dense": "patch_embed", "pos_norm": "norm"}
ENVOYS: dict[str, type[Standard]] = {}
ROOT = BlocklessVision
