"""GPT-2 and GPT-NeoX: other names for everything, and positions counted from each row's own first token."""

from typing import Any

from transformers import GPT2Config, GPTNeoXConfig

from belvedere.testing.encodings import placed_inputs
from belvedere.testing.row import Row
from belvedere.testing.zoo.text import TEXT, TEXT_ROW

SPECIAL: dict[str, Any] = {key: TEXT[key] for key in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id")}


def gpt2() -> GPT2Config:
    return GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=64, **SPECIAL)


def gpt_neox(**given: Any) -> GPTNeoXConfig:
    return GPTNeoXConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, **SPECIAL, **given
    )


def gpt_neox_sequential() -> GPTNeoXConfig:
    return gpt_neox(use_parallel_residual=False)


GPT2 = {"embed_tokens": "wte", "norm": "ln_f", "self_attn": "attn", "o_proj": "c_proj"}
NEOX: dict[str, Any] = {
    "blocks": "gpt_neox.layers",
    "natives": {"embed_tokens": "embed_in", "norm": "final_layer_norm", "self_attn": "attention", "o_proj": "dense"},
    "added": ("post_attention_dropout", "post_mlp_dropout"),
}

ROWS: dict[str, Row] = {
    "gpt2": Row(config=gpt2, **{**TEXT_ROW, "inputs": placed_inputs, "blocks": "transformer.h", "natives": GPT2}),
    "gpt_neox": Row(config=gpt_neox, **{**TEXT_ROW, **NEOX}),
    "gpt_neox_sequential": Row(config=gpt_neox_sequential, **{**TEXT_ROW, **NEOX}),
}
