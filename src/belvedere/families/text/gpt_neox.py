"""GPT-NeoX (`GPTNeoXModel`): attention and MLP read the same stream side by side, a dropout behind each of them."""

from belvedere.components import TEXT_BLOCK, SandwichAttention, SandwichMlp


class DroppedAttention(SandwichAttention):
    """Attention whose result passes a dropout before it is added."""

    AFTER = "post_attention_dropout"


class DroppedMlp(SandwichMlp):
    """An MLP whose result passes a dropout before it is added."""

    AFTER = "post_mlp_dropout"


RENAME = {"embed_in": "embed_tokens", "final_layer_norm": "norm", "attention": "self_attn"}
ENVOYS = {**TEXT_BLOCK, "layers.*.self_attn": DroppedAttention, "layers.*.mlp": DroppedMlp}
STACK = "gpt_neox"
