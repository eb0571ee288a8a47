"""Qwen3-VL-MoE's tower (`Qwen3VLMoeVisionModel`): Qwen3.5's, with more mergers for what enters between text blocks."""

from belvedere.families.towers.qwen3_5_vision import ENVOYS, RENAME, ROOT, ROWS

__all__ = ["ENVOYS", "RENAME", "ROOT", "ROWS"]
