"""Qwen2.5-Omni's thinker: Qwen2.5-VL's tower and text beside a tower for sound."""

from typing import Any

import torch
from torch import Tensor
from transformers import (
    Qwen2_5OmniAudioEncoderConfig,
    Qwen2_5OmniTextConfig,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniVisionEncoderConfig,
)

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, VIDEO_TOKEN, qwen_inputs, video_inputs
from belvedere.testing.row import Row
from belvedere.testing.zoo.qwen import QWEN_ROW
from belvedere.testing.zoo.text import MROPE, TEXT

SOUND_TOKEN = 7
ENDS: dict[str, Any] = {"vision_start_token_id": 3, "vision_end_token_id": 4}


def thinker() -> Qwen2_5OmniThinkerConfig:
    tower = Qwen2_5OmniVisionEncoderConfig(
        hidden_size=24,
        intermediate_size=40,
        out_hidden_size=32,
        depth=3,
        num_heads=2,
        patch_size=8,
        window_size=32,
        fullatt_block_indexes=[1],
    )
    sound = Qwen2_5OmniAudioEncoderConfig(
        d_model=16,
        encoder_layers=1,
        encoder_attention_heads=2,
        encoder_ffn_dim=24,
        num_mel_bins=8,
        max_source_positions=40,
        n_window=10,
        output_dim=32,
    )
    return Qwen2_5OmniThinkerConfig(
        vision_config=tower,
        audio_config=sound,
        text_config=Qwen2_5OmniTextConfig(**TEXT, rope_parameters={**MROPE, "mrope_section": [2, 2, 2]}),
        image_token_index=IMAGE_TOKEN,
        video_token_index=VIDEO_TOKEN,
        audio_token_index=SOUND_TOKEN,
        audio_start_token_id=2,
        audio_end_token_id=1,
        **ENDS,
    )


def inputs() -> dict[str, Tensor]:
    """Qwen's prompts; this model finds its pictures by their start token, and takes no token types."""
    return {key: held for key, held in qwen_inputs().items() if key != "mm_token_type_ids"}


def video() -> dict[str, Tensor]:
    """A video, and how many seconds a frame of it takes."""
    inputs = {key: held for key, held in video_inputs(apart=False).items() if key != "mm_token_type_ids"}
    return {**inputs, "video_second_per_grid": torch.tensor([1.0])}


ROWS: dict[str, Row] = {
    "qwen2_5_omni_thinker": Row(
        config=thinker,
        projected="reordered",
        processor=processors.omni,
        **{**QWEN_ROW, "inputs": inputs, "video": video},
    ),
}
