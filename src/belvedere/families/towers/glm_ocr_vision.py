"""GLM-OCR's tower (`GlmOcrVisionModel`): GLM-4.1V's without a position table, with QK-norm."""

from belvedere.components import GlmVision
from belvedere.families.towers.glm4v_vision import RENAME
from belvedere.families.towers.qwen3_5_vision import ENVOYS, ROWS

__all__ = ["ENVOYS", "RENAME", "ROOT", "ROWS"]

ROOT = GlmVision
