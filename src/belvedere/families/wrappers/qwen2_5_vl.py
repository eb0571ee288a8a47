"""Qwen2.5-VL (`Qwen2_5_VLForConditionalGeneration`): hung as Qwen3.5 is."""

from belvedere.families.wrappers.qwen3_5 import WRAPPER

__all__ = ["WRAPPER"]
