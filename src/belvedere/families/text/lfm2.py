"""LFM2 (`Lfm2Model`): short convolutions in most blocks, attention with QK-norm in the others."""

from belvedere.components import TEXT_BLOCK, ShortConvolution

RENAME = {
    "feed_forward": "mlp",
    "operator_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "embedding_norm": "norm",
}
#: The config's ``intermediate_size`` is adjusted where the MLP is built.
INNER = "layers.0.feed_forward.w1"
ENVOYS = {**TEXT_BLOCK, "layers.*.conv": ShortConvolution}
