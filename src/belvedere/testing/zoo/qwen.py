"""Qwen's wrappers: every picture's patches in one row, a merger at the tower's end, three-dimensional positions."""

from typing import Any

from transformers import Qwen2_5_VLConfig, Qwen2VLConfig, Qwen3_5Config, Qwen3_5VisionConfig

from belvedere.testing.encodings import IMAGE_TOKEN, VIDEO_TOKEN, qwen_inputs
from belvedere.testing.row import PACKED, Row
from belvedere.testing.zoo.text import MROPE, TEXT, qwen3_5_text

QWEN: dict[str, Any] = {
    "image_token_id": IMAGE_TOKEN,
    "video_token_id": VIDEO_TOKEN,
    "vision_start_token_id": 3,
    "vision_end_token_id": 4,
}
QWEN_TEXT = {key: held for key, held in TEXT.items() if key != "head_dim"} | {"rope_parameters": MROPE}


def qwen2_vl() -> Qwen2VLConfig:
    tower = {"embed_dim": 24, "hidden_size": 32, "depth": 3, "num_heads": 2, "patch_size": 8, "mlp_ratio": 2}
    return Qwen2VLConfig(vision_config=tower, text_config=QWEN_TEXT, **QWEN)


def qwen2_5_vl() -> Qwen2_5_VLConfig:
    tower = {
        "hidden_size": 24,
        "intermediate_size": 40,
        "out_hidden_size": 32,
        "depth": 3,
        "num_heads": 2,
        "patch_size": 8,
        "window_size": 32,
        "fullatt_block_indexes": [1],
    }
    return Qwen2_5_VLConfig(vision_config=tower, text_config=QWEN_TEXT, **QWEN)


def qwen3_5() -> Qwen3_5Config:
    tower = Qwen3_5VisionConfig(
        hidden_size=24,
        intermediate_size=40,
        depth=3,
        num_heads=2,
        patch_size=8,
        out_hidden_size=32,
        num_position_embeddings=36,
    )
    return Qwen3_5Config(
        vision_config=tower,
        text_config=qwen3_5_text(),
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
        vision_start_token_id=3,
        vision_end_token_id=4,
    )


QWEN_ROW: dict[str, Any] = {
    **PACKED,
    "inputs": qwen_inputs,
    "tower": "model.visual.blocks",
    "parts": ("attn", "mlp"),
}

ROWS: dict[str, Row] = {
    "qwen3_5": Row(config=qwen3_5, unread=("state_output",), **QWEN_ROW),
    "qwen2_vl": Row(config=qwen2_vl, **QWEN_ROW),
    "qwen2_5_vl": Row(config=qwen2_5_vl, projected="reordered", **QWEN_ROW),
}
