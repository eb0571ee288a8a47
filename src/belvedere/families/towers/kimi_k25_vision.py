"""Kimi K2.5's tower (`Kimi_K25VisionModel`): MoonViT, packed, a table of positions and rotation, a final norm."""

from belvedere.components import VISION_BLOCK, MoonPositions, MoonVision, MoonVisionAttention
from belvedere.families.facts import Rows

RENAME = {
    "attn": "self_attn",
    "norm1": "input_layernorm",
    "norm2": "post_attention_layernorm",
    "final_layernorm": "norm",
}
ENVOYS = {**VISION_BLOCK, "layers.*.self_attn": MoonVisionAttention, "patch_embed.pos_emb": MoonPositions}
ROOT = MoonVision
ROWS = Rows(packed=True)
