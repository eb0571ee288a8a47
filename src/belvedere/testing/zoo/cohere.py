"""Cohere's wrappers and text models: attention and MLP in parallel, and a projector that folds SigLIP's patches."""

from functools import partial

from transformers import AyaVisionConfig, Cohere2Config, Cohere2VisionConfig, CohereConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, llava_inputs
from belvedere.testing.row import Row
from belvedere.testing.zoo.text import TEXT, TEXT_ROW
from belvedere.testing.zoo.towers import CLIP, siglip


def cohere() -> CohereConfig:
    return CohereConfig(**TEXT, use_qk_norm=True, logit_scale=0.3)


def cohere2() -> Cohere2Config:
    return Cohere2Config(
        **TEXT,
        logit_scale=0.3,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )


def aya_vision() -> AyaVisionConfig:
    config = AyaVisionConfig(vision_config=siglip(), text_config=cohere2(), image_token_index=IMAGE_TOKEN)
    config.update({"alignment_intermediate_size": 28})
    return config


def cohere2_vision() -> Cohere2VisionConfig:
    return Cohere2VisionConfig(
        vision_config=siglip(), text_config=cohere2(), image_token_id=IMAGE_TOKEN, alignment_intermediate_size=28
    )


ROWS: dict[str, Row] = {
    "cohere": Row(config=cohere, **TEXT_ROW),
    "cohere2": Row(config=cohere2, **TEXT_ROW),
    "aya_vision": Row(
        config=aya_vision,
        processor=processors.aya,
        inputs=partial(llava_inputs, 4),
        tower=CLIP,
        pictures=(4, 4),
    ),
    "cohere2_vision": Row(
        config=cohere2_vision,
        processor=processors.cohere,
        inputs=partial(llava_inputs, 4),
        tower=CLIP,
        pictures=(4, 4),
        copied=("vision.merged_patches",),
    ),
}
