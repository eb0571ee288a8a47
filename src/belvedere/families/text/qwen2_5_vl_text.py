"""Qwen2.5-VL's text stack (`Qwen2_5_VLTextModel`): Llama's names, with three-dimensional rotary positions."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
