"""GLM-4.1V's tower (`Glm4vVisionModel`): packed, normed at both ends, a convolution folds the patches."""

from belvedere.components import GlmPositions, PlacedGlmVision
from belvedere.families.towers.qwen3_5_vision import ENVOYS as QWEN
from belvedere.families.towers.qwen3_5_vision import RENAME as QWEN_NAMES
from belvedere.families.towers.qwen3_5_vision import ROWS

__all__ = ["ENVOYS", "RENAME", "ROOT", "ROWS"]

RENAME = {**QWEN_NAMES, "post_layernorm": "norm"}
ENVOYS = {**QWEN, "embeddings": GlmPositions}
ROOT = PlacedGlmVision
