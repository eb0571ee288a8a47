"""Qwen2.5-Omni's text stack (`Qwen2_5OmniThinkerTextModel`): Qwen2.5-VL's."""

from belvedere.families.text.qwen2_5_vl_text import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
