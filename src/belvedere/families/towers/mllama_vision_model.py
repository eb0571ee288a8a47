"""Mllama's tower (`MllamaVisionModel`): a picture's tiles in one row, two stacks in sequence, the later one gated."""

from belvedere.components import VISION_BLOCK, TwoStackVision, VisionLayer
from belvedere.families.facts import Rows


class GatedLayer(VisionLayer):
    """A block of the second stack, both of whose branches pass a gate."""

    LIST = "global_layers"
    ADDED = {
        "self_attn": ":self.gate_attn.tanh() * hidden_states.output",
        "mlp": ":self.gate_ffn.tanh() * hidden_states.output",
    }


RENAME = {
    "patch_embedding": "patch_embed",
    "transformer.layers": "layers",
    "global_transformer.layers": "global_layers",
}
ENVOYS = {"global_transformer.layers.*": GatedLayer, **VISION_BLOCK}
ROOT = TwoStackVision
ROWS = Rows(before=1, multiple=8)
