"""LFM2 and LFM2-VL: convolution blocks among attention blocks, under a tower whose pictures are padded."""

from typing import Any

import torch
from transformers import Lfm2Config, Lfm2VlConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN
from belvedere.testing.row import Row
from belvedere.testing.zoo.text import TEXT, TEXT_ROW
from belvedere.testing.zoo.tiles import prompts

#: Patch rows and columns of each picture; all are padded to 24 patches.
SHAPES = ((4, 6), (4, 2), (2, 6))


def lfm2() -> Lfm2Config:
    return Lfm2Config(
        **{**TEXT, "num_hidden_layers": 4},
        layer_types=["conv", "full_attention", "conv", "full_attention"],
        block_multiple_of=8,
    )


def lfm2_vl() -> Lfm2VlConfig:
    tower = {
        "model_type": "siglip2_vision_model",
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "patch_size": 8,
        "num_patches": 16,
        "vision_use_head": False,
    }
    return Lfm2VlConfig(vision_config=tower, text_config=lfm2(), image_token_id=IMAGE_TOKEN, projector_hidden_size=28)


def padded_inputs() -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, each padded to one length."""
    made = torch.Generator().manual_seed(0)
    counts = [rows * columns for rows, columns in SHAPES]
    ids = prompts(tuple(count // 4 for count in counts))
    mask = torch.stack([(torch.arange(24) < count).long() for count in counts])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(3, 24, 192, generator=made) * mask[..., None],
        "pixel_attention_mask": mask,
        "spatial_shapes": torch.tensor(SHAPES),
    }


LFM2: dict[str, Any] = {"natives": {"o_proj": "out_proj"}, "added": ("", "feed_forward")}

ROWS: dict[str, Row] = {
    "lfm2": Row(config=lfm2, **TEXT_ROW, **LFM2),
    "lfm2_vl": Row(
        config=lfm2_vl,
        inputs=padded_inputs,
        processor=processors.lfm2,
        tower="model.vision_tower.encoder.layers",
        pictures=(6, 2, 3),
        prompts=(2, 1),
        copied=("vision.merged_patches",),
        projected="cut",
        **LFM2,
    ),
}
