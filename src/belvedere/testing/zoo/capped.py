"""Gemmas whose logits pass a softcap, and Gemma 2, whose scores do too, which the fused kernel does not take."""

from typing import Any

from transformers import Gemma2Config, Gemma3TextConfig, PaliGemmaConfig

from belvedere.testing import processors
from belvedere.testing.encodings import IMAGE_TOKEN, prefix_inputs
from belvedere.testing.row import Row
from belvedere.testing.zoo.text import GEMMA3, TEXT, TEXT_ROW
from belvedere.testing.zoo.towers import CLIP, siglip

CAPS: dict[str, Any] = {
    **TEXT,
    "query_pre_attn_scalar": 12,
    "attn_logit_softcapping": 2.0,
    "final_logit_softcapping": 3.0,
    "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
CAPPED: dict[str, Any] = {"added": GEMMA3, "cap": 2.0, "kernels": ("eager",)}


def gemma2() -> Gemma2Config:
    return Gemma2Config(**CAPS)


def gemma3_text_capped() -> Gemma3TextConfig:
    return Gemma3TextConfig(**CAPS)


def paligemma2() -> PaliGemmaConfig:
    return PaliGemmaConfig(
        vision_config=siglip(),
        # A window that holds the whole prompt: a smaller one would cut the prompt that is seen whole.
        text_config=Gemma2Config(**{**CAPS, "sliding_window": 64}),
        image_token_index=IMAGE_TOKEN,
        projection_dim=32,
        hidden_size=32,
        vocab_size=64,
    )


ROWS: dict[str, Row] = {
    "gemma2": Row(config=gemma2, **CAPPED, **TEXT_ROW),
    # Gemma 3's config has a cap for the scores, and its attention does not pass it on.
    "gemma3_text_capped": Row(config=gemma3_text_capped, added=GEMMA3, **TEXT_ROW),
    "paligemma2": Row(
        config=paligemma2,
        inputs=prefix_inputs,
        tower=CLIP,
        attends="prompt both ways",
        processor=processors.paligemma,
        demands="`images` are expected",
        **CAPPED,
    ),
}
