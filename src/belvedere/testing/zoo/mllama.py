"""Mllama: text blocks that attend to the picture, a tower of two stacks, tiles."""

import torch
from transformers import MllamaConfig, MllamaTextConfig, MllamaVisionConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, words
from belvedere.testing.row import Later, Row, Scaled
from belvedere.testing.zoo.text import TEXT, TEXT_ROW


def mllama() -> MllamaConfig:
    tower = MllamaVisionConfig(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_global_layers=2,
        attention_heads=3,
        image_size=32,
        patch_size=8,
        max_num_tiles=2,
        supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]],
        intermediate_layers_indices=[0, 2],
        vision_output_dim=72,
    )
    text = {key: held for key, held in TEXT.items() if key not in ("head_dim", "num_hidden_layers")}
    return MllamaConfig(
        vision_config=tower,
        text_config=MllamaTextConfig(num_hidden_layers=6, cross_attention_layers=[3, 4], **text),
        image_token_index=IMAGE_TOKEN,
    )


def mllama_inputs() -> dict[str, torch.Tensor]:
    """Two prompts with a picture each, of two tiles and of one; text before a picture may not look at it."""
    made = torch.Generator().manual_seed(0)
    ids = torch.tensor(
        [[1, *words(2, 1), IMAGE_TOKEN, *words(6, 2)], [0, 0, 1, *words(1, 3), IMAGE_TOKEN, *words(5, 4)]]
    )
    tiles = torch.tensor([[[1, 1]], [[1, 0]]])
    shown = (ids == IMAGE_TOKEN).cumsum(-1)[:, :, None, None]
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(2, 1, 2, 3, 32, 32, generator=made),
        "aspect_ratio_ids": torch.tensor([[2], [1]]),
        "aspect_ratio_mask": tiles,
        "cross_attention_mask": shown * tiles[:, None],
    }


GATED = (Scaled("self_attn", "gate_attn", gate=True), Scaled("mlp", "gate_ffn", gate=True))
CROSS = (
    Scaled("cross_attn", "cross_attn_attn_gate", gate=True),
    Scaled("mlp", "cross_attn_mlp_gate", gate=True, masked="full_text_row_masked_out_mask"),
)

ROWS: dict[str, Row] = {
    "mllama": Row(
        config=mllama,
        inputs=mllama_inputs,
        processor=processors.mllama,
        tower="model.vision_model.transformer.layers",
        later=Later("global_layers", "model.vision_model.global_transformer.layers", GATED),
        cross=CROSS,
        pictures=(34, 34),
        shared=("vision.layers[1].layer_input",),
        alone="takes prompts with as many pictures together",
    ),
    "mllama_text_model": Row(config=mllama, cross=CROSS, **TEXT_ROW),
}
