"""One row per checkpoint: its config, its inputs, and what it may lack, with the reason."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import nnsight  # noqa: F401 - before any transformers model, which nnsight patches
import torch
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    PreTrainedConfig,
    Qwen3_5Config,
    Qwen3_5TextConfig,
    Qwen3_5VisionConfig,
)

IMAGE_TOKEN, VIDEO_TOKEN = 5, 6


def llama() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
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


def llava() -> LlavaConfig:
    tower = CLIPVisionConfig(
        hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3, image_size=32, patch_size=8
    )
    return LlavaConfig(vision_config=tower, text_config=llama(), image_token_id=IMAGE_TOKEN, vision_feature_layer=-2)


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


def words(count: int, seed: int) -> list[int]:
    """Token ids that are neither special nor placeholders."""
    made = torch.Generator().manual_seed(seed)
    return torch.randint(8, 64, (count,), generator=made).tolist()


def text_inputs(rows: int = 2) -> dict[str, torch.Tensor]:
    """Two prompts, the first padded on the left."""
    ids = torch.tensor([words(9, seed) for seed in range(rows)])
    mask = torch.ones_like(ids)
    ids[0, :3], mask[0, :3] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def llava_inputs() -> dict[str, torch.Tensor]:
    """Two prompts with a picture each, the second with less text and so padded on the left."""
    made = torch.Generator().manual_seed(0)
    picture = [IMAGE_TOKEN] * 16
    ids = torch.tensor([[1, *words(3, 1), *picture, *words(4, 2)], [0, 0, 1, *words(2, 3), *picture, *words(3, 4)]])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(2, 3, 32, 32, generator=made),
    }


def qwen_inputs() -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, all in one pack."""
    made = torch.Generator().manual_seed(0)
    grids = [[1, 4, 6], [1, 6, 4], [1, 2, 4]]
    shown = [[3, *[IMAGE_TOKEN] * (t * h * w // 4), 4] for t, h, w in grids]
    first = [*words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(4, 3)]
    second = [*words(5, 4), *shown[2], *words(3, 5)]
    ids = torch.tensor([first, [0] * (len(first) - len(second)) + second])
    patches = sum(t * h * w for t, h, w in grids)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "mm_token_type_ids": (ids == IMAGE_TOKEN).int(),
        "pixel_values": torch.randn(patches, 3 * 2 * 8 * 8, generator=made),
        "image_grid_thw": torch.tensor(grids),
    }


@dataclass(frozen=True, kw_only=True)
class Row:
    """A checkpoint of the zoo.

    Args:
        config: Makes its config.
        inputs: Makes an encoding with everything that the model needs beside ids.
        auto: The transformers auto class that builds it.
        blocks: The native path of the text blocks, for raw hooks.
        tower: The native path of the tower's blocks; empty for a text model.
        lacks: Values that the architecture does not have, with the reason's first words.
    """

    config: Callable[[], PreTrainedConfig]
    inputs: Callable[[], dict[str, torch.Tensor]]
    auto: str = "AutoModelForImageTextToText"
    blocks: str = "model.language_model.layers"
    tower: str = ""
    lacks: dict[str, str] = field(default_factory=dict)


ROWS: dict[str, Row] = {
    "llava": Row(config=llava, inputs=llava_inputs, tower="model.vision_tower.encoder.layers"),
    "qwen3_5": Row(config=qwen3_5, inputs=qwen_inputs, tower="model.visual.blocks"),
    "llama": Row(config=llama, inputs=text_inputs, auto="AutoModelForCausalLM", blocks="model.layers"),
    "qwen3_5_text": Row(config=qwen3_5_text, inputs=text_inputs, auto="AutoModelForCausalLM", blocks="model.layers"),
}


def build(name: str, attention: str = "sdpa") -> Any:
    """The row's module with seeded random weights, large enough that nothing is near zero."""
    import transformers

    row = ROWS[name]
    torch.manual_seed(0)
    module = getattr(transformers, row.auto).from_config(row.config(), attn_implementation=attention)
    made = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=made) * 0.2 + (parameter.ndim == 1) * 0.5)
    return module.eval()
