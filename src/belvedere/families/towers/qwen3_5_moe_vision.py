"""Qwen3.5-MoE's tower (`Qwen3_5MoeVisionModel`): Qwen3.5's."""

from belvedere.families.towers.qwen3_5_vision import ENVOYS, RENAME, ROOT, ROWS

__all__ = ["ENVOYS", "RENAME", "ROOT", "ROWS"]
