"""Tower configs that several wrappers share."""

from transformers import CLIPVisionConfig, PixtralVisionConfig, SiglipVisionConfig

from belvedere.testing.row import Row


def clip() -> CLIPVisionConfig:
    return CLIPVisionConfig(
        hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3, image_size=32, patch_size=8
    )


def siglip() -> SiglipVisionConfig:
    return SiglipVisionConfig(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=3,
        image_size=32,
        patch_size=8,
        vision_use_head=False,
    )


def pixtral() -> PixtralVisionConfig:
    return PixtralVisionConfig(
        hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3, image_size=48, patch_size=8
    )


CLIP = "model.vision_tower.encoder.layers"
#: Towers are only tested inside a wrapper.
ROWS: dict[str, Row] = {}
