"""Gemma's wrappers: a picture's tokens see each other both ways."""

from functools import partial
from typing import Any

from transformers import Gemma3Config, PaliGemmaConfig

from belvedere.testing import processors
from belvedere.testing.encodings import IMAGE_TOKEN, gemma_inputs, prefix_inputs
from belvedere.testing.row import Row
from belvedere.testing.zoo.text import GEMMA3, gemma, gemma3_text
from belvedere.testing.zoo.towers import CLIP, siglip


def paligemma() -> PaliGemmaConfig:
    return PaliGemmaConfig(
        vision_config=siglip(),
        text_config=gemma(),
        image_token_index=IMAGE_TOKEN,
        projection_dim=32,
        hidden_size=32,
        vocab_size=64,
    )


def gemma3() -> Gemma3Config:
    return Gemma3Config(
        vision_config=siglip(), text_config=gemma3_text(), image_token_index=IMAGE_TOKEN, mm_tokens_per_image=4
    )


GEMMA3_ROW: dict[str, Any] = {
    "inputs": partial(gemma_inputs, 4),
    "tower": CLIP,
    "pictures": (4, 4),
    "processor": processors.gemma3,
    "placeholder": "<start>",
    "added": GEMMA3,
    "attends": "pictures both ways",
}

ROWS: dict[str, Row] = {
    "paligemma": Row(
        config=paligemma,
        inputs=prefix_inputs,
        tower=CLIP,
        attends="prompt both ways",
        processor=processors.paligemma,
        demands="`images` are expected",
    ),
    "gemma3": Row(config=gemma3, **GEMMA3_ROW),
}
