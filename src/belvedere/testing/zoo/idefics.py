"""Idefics and SmolVLM: pictures stacked by prompt, smaller ones padded, the stack filled up with zeros."""

from functools import partial
from typing import Any

import torch
from transformers import Idefics2Config, Idefics3Config, SmolVLMConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN
from belvedere.testing.row import Row
from belvedere.testing.zoo.text import TEXT, llama
from belvedere.testing.zoo.tiles import prompts

TOWER: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "image_size": 48,
    "patch_size": 8,
}
#: What each picture fills of the 32 x 32 pixels that the largest of its prompt needs.
REAL = ((32, 32), (16, 24), (32, 32))


def stacked_inputs(tokens: int) -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, and zeros to fill its stack."""
    made = torch.Generator().manual_seed(0)
    ids = prompts((tokens,) * 3)
    pixels = torch.zeros(2, 2, 3, 32, 32)
    mask = torch.zeros(2, 2, 32, 32, dtype=torch.long)
    for place, (rows, columns) in zip(((0, 0), (0, 1), (1, 0)), REAL, strict=True):
        pixels[place][:, :rows, :columns] = torch.randn(3, rows, columns, generator=made)
        mask[place][:rows, :columns] = 1
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": pixels,
        "pixel_attention_mask": mask,
    }


def idefics3() -> Idefics3Config:
    return Idefics3Config(vision_config=TOWER, text_config=llama(), image_token_id=IMAGE_TOKEN)


def smolvlm() -> SmolVLMConfig:
    return SmolVLMConfig(vision_config=TOWER, text_config=llama(), image_token_id=IMAGE_TOKEN)


def idefics2() -> Idefics2Config:
    resampler = {
        "hidden_size": 32,
        "resampler_n_latents": 3,
        "resampler_depth": 2,
        "resampler_n_heads": 4,
        "resampler_head_dim": 6,
        "num_key_value_heads": 2,
    }
    return Idefics2Config(
        vision_config=TOWER,
        perceiver_config=resampler,
        text_config={"model_type": "mistral", **TEXT},
        image_token_id=IMAGE_TOKEN,
    )


STACKED: dict[str, Any] = {
    "blocks": "model.text_model.layers",
    "tower": "model.vision_model.encoder.layers",
    "prompts": (2, 1),
    "tiles": (2, 1),
    "stacked": "prompt",
}

ROWS: dict[str, Row] = {
    "idefics3": Row(
        config=idefics3,
        inputs=lambda: stacked_inputs(4),
        pictures=(4, 4, 4),
        processor=processors.idefics3,
        forms={"uncut": partial(processors.idefics3, False)},
        **STACKED,
    ),
    "smolvlm": Row(config=smolvlm, inputs=lambda: stacked_inputs(4), pictures=(4, 4, 4), **STACKED),
    "idefics2": Row(
        config=idefics2,
        inputs=lambda: stacked_inputs(3),
        pictures=(3, 3, 3),
        processor=processors.idefics2,
        forms={"cut": partial(processors.idefics2, True)},
        **STACKED,
    ),
}
