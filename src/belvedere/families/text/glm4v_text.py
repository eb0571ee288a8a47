"""GLM-4.1V's text stack (`Glm4vTextModel`): what attention and MLP add passes a norm of its own first."""

from belvedere.components import TEXT_BLOCK, SandwichAttention, SandwichMlp


class GlmAttention(SandwichAttention):
    """Attention whose norm before the stream is beside the MLP's usual one."""

    AFTER = "post_self_attn_layernorm"


class GlmMlp(SandwichMlp):
    """An MLP whose norm before the stream is named after it."""

    AFTER = "post_mlp_layernorm"


RENAME: dict[str, str] = {}
ENVOYS = {**TEXT_BLOCK, "layers.*.self_attn": GlmAttention, "layers.*.mlp": GlmMlp}
