"""Pixtral's tower (`PixtralVisionModel`): every image in one row, none sees another's patches; no final norm."""

from belvedere.components import VISION_BLOCK, PixtralVision, PixtralVisionAttention
from belvedere.families.facts import Rows

RENAME = {
    "patch_conv": "patch_embed",
    "transformer.layers": "layers",
    "attention": "self_attn",
    "feed_forward": "mlp",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
ENVOYS = {**VISION_BLOCK, "layers.*.self_attn": PixtralVisionAttention}
ROOT = PixtralVision
ROWS = Rows(packed=True)
