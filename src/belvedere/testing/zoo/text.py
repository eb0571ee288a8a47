"""Text models on their own, and the text configs that the wrappers share."""

from typing import Any

from transformers import (
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from belvedere.testing.encodings import text_inputs
from belvedere.testing.row import Row

TEXT: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}


def llama() -> LlamaConfig:
    return LlamaConfig(**TEXT)


def qwen2() -> Qwen2Config:
    return Qwen2Config(**{**TEXT, "head_dim": 8})


def qwen3() -> Qwen3Config:
    return Qwen3Config(**TEXT)


def mistral() -> MistralConfig:
    return MistralConfig(**TEXT)


def gemma() -> GemmaConfig:
    return GemmaConfig(**TEXT)


def gemma3_text() -> Gemma3TextConfig:
    return Gemma3TextConfig(
        **TEXT,
        sliding_window=6,
        query_pre_attn_scalar=12,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )


def qwen3_5_text() -> Qwen3_5TextConfig:
    return Qwen3_5TextConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=6,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
        },
        layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"],
        pad_token_id=0,
    )


GEMMA3 = ("post_attention_layernorm", "post_feedforward_layernorm")
TEXT_ROW: dict[str, Any] = {"inputs": text_inputs, "auto": "AutoModelForCausalLM", "blocks": "model.layers"}

ROWS: dict[str, Row] = {
    "llama": Row(config=llama, **TEXT_ROW),
    "qwen3_5_text": Row(config=qwen3_5_text, **TEXT_ROW),
    "qwen2": Row(config=qwen2, **TEXT_ROW),
    "qwen3": Row(config=qwen3, **TEXT_ROW),
    "mistral": Row(config=mistral, **TEXT_ROW),
    "gemma": Row(config=gemma, **TEXT_ROW),
    "gemma3_text": Row(config=gemma3_text, added=GEMMA3, **TEXT_ROW),
}
