"""InternVL: layer scale in the tower, a pixel shuffle before the projector."""

from functools import partial
from typing import Any

from transformers import InternVLConfig, InternVLVisionConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, llava_inputs, tiled_inputs
from belvedere.testing.row import Row, Scaled
from belvedere.testing.zoo.text import llama, qwen2


def internvl_vision(**given: Any) -> InternVLVisionConfig:
    return InternVLVisionConfig(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=3,
        image_size=(32, 32),
        patch_size=(8, 8),
        **given,
    )


def internvl() -> InternVLConfig:
    return InternVLConfig(
        vision_config=internvl_vision(), text_config=qwen2(), image_token_id=IMAGE_TOKEN, image_seq_length=4
    )


def internvl_qk_norm() -> InternVLConfig:
    """The form of the 6B tower: RMS norms, also on queries and keys, and a final norm; Llama as text."""
    tower = internvl_vision(use_qk_norm=True, norm_type="rms_norm", use_mean_pooling=False)
    given: dict[str, Any] = {"image_token_id": IMAGE_TOKEN, "image_seq_length": 4, "tie_word_embeddings": False}
    return InternVLConfig(vision_config=tower, text_config=llama(), **given)


INTERNVL: dict[str, Any] = {
    "inputs": partial(llava_inputs, 4),
    "tower": "model.vision_tower.encoder.layer",
    "parts": (Scaled("attention", "lambda_1"), Scaled("mlp", "lambda_2")),
    "pictures": (4, 4),
    "processor": processors.internvl,
    "forms": {"uncut": partial(processors.internvl, 1)},
}

#: Two pictures in the first prompt, of two tiles and of one; one of three tiles in the second.
TILES: dict[str, Any] = {
    "inputs": partial(tiled_inputs, 4, (2, 1, 3)),
    "prompts": (2, 1),
    "pictures": (8, 4, 12),
    "cuts": (2, 1, 3),
}

ROWS: dict[str, Row] = {
    "internvl_tiles": Row(config=internvl, **{**INTERNVL, **TILES}),
    "internvl": Row(config=internvl, **INTERNVL),
    "internvl_qk_norm": Row(config=internvl_qk_norm, **INTERNVL),
}
