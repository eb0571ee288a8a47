"""Llama 4: features written in by the root, a mixture that scales what its experts take, chunked attention."""

from functools import partial
from typing import Any

from transformers import Llama4Config, Llama4TextConfig, Llama4VisionConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, llava_inputs, tiled_inputs
from belvedere.testing.row import MIXTURE, Row
from belvedere.testing.zoo.internvl import TILES
from belvedere.testing.zoo.text import TEXT, TEXT_ROW


def llama4_text() -> Llama4TextConfig:
    return Llama4TextConfig(
        **TEXT,
        intermediate_size_mlp=40,
        num_experts_per_tok=2,
        num_local_experts=4,
        moe_layers=[1, 2],
        no_rope_layers=[1, 0, 1],
        attention_chunk_size=5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )


def llama4() -> Llama4Config:
    tower = Llama4VisionConfig(
        hidden_size=24,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=3,
        image_size=32,
        patch_size=8,
        projector_input_dim=28,
        projector_output_dim=28,
        vision_output_dim=28,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    config = Llama4Config(
        vision_config=tower,
        text_config=llama4_text(),
        image_token_index=IMAGE_TOKEN,
        boi_token_index=3,
        eoi_token_index=4,
    )
    # With its default the forward fails in transformers 5.24.
    config.return_dict = False
    return config


LLAMA4: dict[str, Any] = {**MIXTURE, "natives": {"mlp": "feed_forward"}}

WRAPPED: dict[str, Any] = {
    "config": llama4,
    "blocks": "language_model.model.layers",
    "tower": "vision_model.model.layers",
    "embedded": "vision_model.layernorm_pre",
    "forward": {"return_dict": True},
    "processor": processors.llama4,
    "placeholder": "<|image|>",
    "ungenerated": "'tuple' object has no attribute",
    **LLAMA4,
}

ROWS: dict[str, Row] = {
    "llama4_text": Row(config=llama4_text, **LLAMA4, **TEXT_ROW),
    "llama4": Row(inputs=partial(llava_inputs, 4), pictures=(4, 4), **WRAPPED),
    "llama4_tiles": Row(**{**WRAPPED, **TILES, "inputs": partial(tiled_inputs, 4, (2, 1, 3), (7,))}),
}
