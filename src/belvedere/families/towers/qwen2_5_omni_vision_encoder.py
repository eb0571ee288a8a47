"""Qwen2.5-Omni's tower (`Qwen2_5OmniVisionEncoder`): Qwen2.5-VL's, windows in most blocks."""

from belvedere.families.towers.qwen2_5_vl_vision import ENVOYS, RENAME, ROOT, ROWS

__all__ = ["ENVOYS", "RENAME", "ROOT", "ROWS"]
