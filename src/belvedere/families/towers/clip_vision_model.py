"""CLIP's tower (`CLIPVisionModel`): CLS first, and a final norm that only the pooled CLS passes."""

from belvedere.components import VISION_BLOCK
from belvedere.families.facts import Rows

RENAME = {
    "embeddings.patch_embedding": "patch_embed",
    "embeddings.position_embedding": "position_embed",
    "encoder.layers": "layers",
    "layer_norm1": "input_layernorm",
    "layer_norm2": "post_attention_layernorm",
}
ENVOYS = VISION_BLOCK
ROWS = Rows(before=1)
