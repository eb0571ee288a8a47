"""Wrappers of Pixtral's tower, which packs pictures of any size into one row."""

from functools import partial
from typing import Any

from transformers import LightOnOcrConfig, Mistral3Config

from belvedere.testing import processors
from belvedere.testing.encodings import IMAGE_TOKEN, sized_inputs
from belvedere.testing.row import PACKED, Row
from belvedere.testing.zoo.text import mistral, qwen3
from belvedere.testing.zoo.towers import pixtral


def mistral3() -> Mistral3Config:
    return Mistral3Config(vision_config=pixtral(), text_config=mistral(), image_token_index=IMAGE_TOKEN)


def lighton_ocr() -> LightOnOcrConfig:
    return LightOnOcrConfig(vision_config=pixtral(), text_config=qwen3(), image_token_id=IMAGE_TOKEN)


PIXTRAL_ROW: dict[str, Any] = {
    "inputs": partial(sized_inputs, 2),
    "tower": "model.vision_tower.transformer.layers",
    "parts": ("attention", "feed_forward"),
    **PACKED,
}

ROWS: dict[str, Row] = {
    "mistral3": Row(config=mistral3, **{**PIXTRAL_ROW, "pictures": (6, 3, 2)}, processor=processors.mistral),
    "lighton_ocr": Row(
        config=lighton_ocr,
        **{**PIXTRAL_ROW, "tower": "model.vision_encoder.transformer.layers", "pictures": (6, 3, 2)},
        processor=processors.ocr,
    ),
}
