"""Gemma 4: padded pictures of several sizes, a third term in each block, keys and values shared by late blocks."""

from functools import partial
from typing import Any

import torch
from transformers import (
    Gemma4Config,
    Gemma4TextConfig,
    Gemma4UnifiedConfig,
    Gemma4UnifiedTextConfig,
    Gemma4UnifiedVisionConfig,
    Gemma4VisionConfig,
)

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, VIDEO_TOKEN, framed_inputs, text_inputs, words
from belvedere.testing.row import MIXTURE, Row
from belvedere.testing.zoo.text import GEMMA3, TEXT, TEXT_ROW

#: Rows and columns of each picture's patches, of 8 by 8 pixels.
GRIDS = ((4, 6), (6, 2), (2, 4))
LENGTH = 28


def gemma4_text(**given: Any) -> Gemma4TextConfig:
    """The small ones: an input of its own for each block, the last two blocks without keys and values of their own."""
    small = {
        "hidden_size_per_layer_input": 6,
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }
    return Gemma4TextConfig(
        **{
            **TEXT,
            "num_hidden_layers": 4,
            # Random weights may choose any token, and a generation of three is to have three.
            "eos_token_id": None,
            "vocab_size_per_layer_input": 64,
            "global_head_dim": 16,
            "sliding_window": 6,
            "final_logit_softcapping": 3.0,
            **small,
            **given,
        }
    )


def gemma4_both_ways() -> Gemma4TextConfig:
    """The large ones: no such input, pictures seen both ways in windows, keys as values elsewhere, a mixture."""
    return gemma4_text(
        hidden_size_per_layer_input=0,
        num_kv_shared_layers=0,
        use_double_wide_mlp=False,
        use_bidirectional_attention="vision",
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
        enable_moe_block=True,
        num_experts=6,
        top_k_experts=2,
        moe_intermediate_size=24,
    )


def gemma4_vision() -> Gemma4VisionConfig:
    return Gemma4VisionConfig(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=12,
        patch_size=8,
        pooling_kernel_size=2,
        position_embedding_size=24,
        standardize=True,
    )


def gemma4(text: Gemma4TextConfig | None = None) -> Gemma4Config:
    return Gemma4Config(
        vision_config=gemma4_vision(),
        text_config=text or gemma4_text(),
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
        audio_token_id=7,
    )


def gemma4_large() -> Gemma4Config:
    return gemma4(gemma4_both_ways())


def gemma4_unified_text() -> Gemma4UnifiedTextConfig:
    return Gemma4UnifiedTextConfig(
        **{**TEXT, "num_hidden_layers": 4, "global_head_dim": 16},
        sliding_window=6,
        final_logit_softcapping=3.0,
        layer_types=["sliding_attention", "full_attention"] * 2,
    )


def gemma4_unified() -> Gemma4UnifiedConfig:
    return Gemma4UnifiedConfig(
        vision_config=Gemma4UnifiedVisionConfig(
            patch_size=4, pooling_kernel_size=2, mm_embed_dim=24, mm_posemb_size=16, output_proj_dims=24
        ),
        text_config=gemma4_unified_text(),
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
        audio_token_id=7,
    )


def gemma4_towerless() -> Gemma4Config:
    config = gemma4()
    config.vision_config = None
    return config


def padded_pictures(width: int = 8, fold: int = 2) -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, each padded to one length.

    Args:
        width: The side of a patch, in pixels.
        fold: How many patches a side become one token.
    """
    made = torch.Generator().manual_seed(0)
    shown = [[3, *[IMAGE_TOKEN] * (rows * columns // fold**2), 4] for rows, columns in GRIDS]
    first = [*words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(4, 3)]
    second = [*words(5, 4), *shown[2], *words(3, 5)]
    ids = torch.tensor([first, [0] * (len(first) - len(second)) + second])
    places = torch.full((len(GRIDS), LENGTH, 2), -1)
    for number, (rows, columns) in enumerate(GRIDS):
        row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        places[number, : rows * columns] = torch.stack([column.flatten(), row.flatten()], dim=-1)
    pixels = torch.rand(len(GRIDS), LENGTH, 3 * width**2, generator=made)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "mm_token_type_ids": (ids == IMAGE_TOKEN).long(),
        "pixel_values": pixels * (places >= 0).all(-1, keepdim=True),
        "image_position_ids": places,
    }


def filmed(fold: int = 2) -> dict[str, torch.Tensor]:
    """A video of two frames of 4 x 6 patches, each padded to one length.

    Args:
        fold: How many patches a side become one token.
    """
    places = torch.full((2, LENGTH, 2), -1)
    places[:, :24] = torch.cartesian_prod(torch.arange(4), torch.arange(6)).flip(-1)
    inputs = framed_inputs(
        (24 // fold**2,) * 2,
        pixel_values_videos=torch.rand(2, LENGTH, 192, generator=torch.Generator().manual_seed(0)),
        video_position_ids=places,
        num_frames_per_video=torch.tensor([2]),
    )
    return {**inputs, "mm_token_type_ids": (inputs["input_ids"] == VIDEO_TOKEN).long() * 2}


#: Blocks 2 and 3 attend to the very tensors of 0 and 1; what enters block 0 is also what each block's input is made of.
OWN: dict[str, Any] = {
    "shared": (
        "layers[0].layer_input",
        *(f"layers[{number}].self_attn.attention_{part}" for number in range(4) for part in ("keys", "values")),
    ),
    "besides": ("per_layer_input",),
}
SMALL: dict[str, Any] = {
    "added": GEMMA3,
    "also": {"per_layer_output": "post_per_layer_input_norm"},
    "gain": "layer_scalar",
    "scale": 1.0,
    "skipped": 2,
}
PICTURES: dict[str, Any] = {
    "inputs": padded_pictures,
    "video": filmed,
    "processor": processors.gemma4,
    "tower": "model.vision_tower.encoder.layers",
    "parts": GEMMA3,
    "pictures": (6, 3, 2),
    "prompts": (2, 1),
}

ROWS: dict[str, Row] = {
    "gemma4_text": Row(config=gemma4_text, **OWN, **SMALL, **TEXT_ROW),
    "gemma4": Row(config=gemma4, **OWN, **SMALL, **PICTURES),
    "gemma4_towerless": Row(config=gemma4_towerless, inputs=text_inputs, **OWN, **SMALL),
    "gemma4_large": Row(
        config=gemma4_large, **{**SMALL, "also": {}}, attends="pictures both ways", **MIXTURE, **PICTURES
    ),
    "gemma4_unified_text": Row(config=gemma4_unified_text, **{**SMALL, "also": {}}, **TEXT_ROW),
    "gemma4_unified": Row(
        config=gemma4_unified,
        **{
            **SMALL,
            **PICTURES,
            "also": {},
            "inputs": partial(padded_pictures, fold=1),
            "video": partial(filmed, fold=1),
            "processor": partial(processors.gemma4, "Gemma4Unified", 4),
            "tower": "model.embed_vision",
            "pictures": (24, 12, 8),
        },
        blockless="pos_norm",
        projected="with padding",
        attends="pictures both ways",
    ),
}
