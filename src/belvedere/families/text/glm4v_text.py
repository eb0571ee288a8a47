"""GLM-4.1V's text stack (`Glm4vTextModel`): what attention and MLP add passes a norm of its own first."""

from belvedere.components import TEXT_BLOCK, Layer


class GlmLayer(Layer):
    """A block whose norms before the stream are named after its parts."""

    ADDED = {"self_attn": "post_self_attn_layernorm.output", "mlp": "post_mlp_layernorm.output"}


RENAME: dict[str, str] = {}
ENVOYS = {**TEXT_BLOCK, "layers.*": GlmLayer}
