"""GPT-NeoX (`GPTNeoXModel`): attention and MLP read the same stream side by side, a dropout behind each of them."""

from belvedere.components import TEXT_BLOCK, Layer


class DroppedLayer(Layer):
    """A block in which what each part returns passes a dropout before it is added."""

    ADDED = {"self_attn": "post_attention_dropout.output", "mlp": "post_mlp_dropout.output"}


RENAME = {"embed_in": "embed_tokens", "final_layer_norm": "norm", "attention": "self_attn"}
ENVOYS = {**TEXT_BLOCK, "layers.*": DroppedLayer}
STACK = "gpt_neox"
