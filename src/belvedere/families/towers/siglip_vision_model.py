"""SigLIP's tower (`SiglipVisionModel`): patches alone, no CLS, and a final norm over all of them."""

from belvedere.components import VISION_BLOCK

RENAME = {
    "embeddings.patch_embedding": "patch_embed",
    "embeddings.position_embedding": "position_embed",
    "encoder.layers": "layers",
    "layer_norm1": "input_layernorm",
    "layer_norm2": "post_attention_layernorm",
    "post_layernorm": "norm",
}
ENVOYS = VISION_BLOCK
