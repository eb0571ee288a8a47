"""Mllama's text stack (`MllamaTextModel`): Llama's blocks, and among them gated ones that attend to the picture."""

from belvedere.components import TEXT_BLOCK, CrossAttention, CrossLayer


class GatedCrossLayer(CrossLayer):
    """A block whose two branches pass a gate where it attends to the picture."""

    ADDED = {
        "cross_attn": ":self.cross_attn_attn_gate.tanh() * hidden_states.output",
        "mlp": ":self.cross_attn_mlp_gate.tanh() * hidden_states.output",
    }


RENAME: dict[str, str] = {}
ENVOYS = {**TEXT_BLOCK, "layers.*": GatedCrossLayer, "layers.*.cross_attn": CrossAttention}
