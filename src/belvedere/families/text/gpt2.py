"""GPT-2 (`GPT2Model`): learned positions are added to the embeddings; one projection makes queries, keys, values."""

from belvedere.components import TEXT_BLOCK

RENAME = {
    "wte": "embed_tokens",
    "h": "layers",
    "ln_f": "norm",
    "attn": "self_attn",
    "ln_1": "input_layernorm",
    "ln_2": "post_attention_layernorm",
}
ENVOYS = TEXT_BLOCK
STACK = "transformer"
