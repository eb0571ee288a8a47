"""Qwen2.5-VL's tower (`Qwen2_5_VisionTransformerPretrainedModel`): rows in window order, windows in most blocks."""

from belvedere.components import RotaryQwenVision
from belvedere.families.facts import Rows
from belvedere.families.towers.qwen3_5_vision import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME", "ROOT", "ROWS"]

ROOT = RotaryQwenVision
ROWS = Rows(packed=True, order="windows")
