"""Qwen3-VL (`Qwen3VLForConditionalGeneration`): hung as Qwen3.5 is."""

from belvedere.families.wrappers.qwen3_5 import WRAPPER

__all__ = ["WRAPPER"]
