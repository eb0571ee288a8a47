"""Cosmos 3 Omni (`Cosmos3OmniForConditionalGeneration`): hung as Qwen3-VL is, with its tower and text."""

from belvedere.families.wrappers.qwen3_vl import WRAPPER

__all__ = ["WRAPPER"]
