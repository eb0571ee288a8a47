"""Qwen3.5's tower (`Qwen3_5VisionModel`): packed, one segment per frame, no final norm, a merger at its end."""

from belvedere.components import VISION_BLOCK, QwenVision, QwenVisionAttention
from belvedere.families.facts import Rows

RENAME = {"blocks": "layers", "attn": "self_attn", "norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
ENVOYS = {**VISION_BLOCK, "layers.*.self_attn": QwenVisionAttention}
ROOT = QwenVision
ROWS = Rows(packed=True, order="merge blocks")
