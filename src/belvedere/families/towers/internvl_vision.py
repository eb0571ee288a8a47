"""InternVL's tower (`InternVLVisionModel`): CLS first, and both branches scaled by bare parameters before they add."""

from belvedere.components import VISION_BLOCK, Standard, Vision, VisionLayer
from belvedere.families.facts import Rows


class InternVLEmbeddings(Standard):
    """The embeddings, in whose forward the position table, a bare parameter, is resampled to the picture."""

    OPERATIONS = ("self.interpolate_pos_encoding()",)


class InternVLVision(Vision):
    """A tower whose position table is no module."""

    POSITIONS = "embeddings:self.interpolate_pos_encoding().output"


class ScaledLayer(VisionLayer):
    """A block with layer scale."""

    ADDED = {"self_attn": ":self.lambda_1 * attention_output.output", "mlp": ":self.lambda_2 * layer_output.output"}


RENAME = {
    "embeddings.patch_embeddings": "patch_embed",
    "encoder.layer": "layers",
    "attention": "self_attn",
    "layernorm_before": "input_layernorm",
    "layernorm_after": "post_attention_layernorm",
    "layernorm": "norm",
}
ENVOYS = {**VISION_BLOCK, "layers.*": ScaledLayer, "embeddings": InternVLEmbeddings}
ROOT = InternVLVision
ROWS = Rows(before=1)
