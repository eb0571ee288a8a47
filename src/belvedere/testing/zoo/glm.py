"""GLM's wrappers: a packed tower whose patches a convolution folds, and norms around what the text blocks add."""

from functools import partial
from typing import Any

from transformers import (
    Glm4vConfig,
    Glm4vMoeConfig,
    Glm4vMoeTextConfig,
    Glm4vMoeVisionConfig,
    Glm4vTextConfig,
    Glm4vVisionConfig,
    Glm46VConfig,
    GlmgaConfig,
    GlmOcrConfig,
    GlmOcrTextConfig,
    GlmOcrVisionConfig,
)

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, VIDEO_TOKEN, video_inputs
from belvedere.testing.row import MIXTURE, Row
from belvedere.testing.zoo.qwen import QWEN_ROW, QWEN_TEXT
from belvedere.testing.zoo.text import MROPE, TEXT

TOKENS: dict[str, Any] = {
    "image_token_id": IMAGE_TOKEN,
    "video_token_id": VIDEO_TOKEN,
    "image_start_token_id": 3,
    "image_end_token_id": 4,
    "video_start_token_id": 3,
    "video_end_token_id": 4,
}
TOWER: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "depth": 3,
    "num_heads": 2,
    "patch_size": 8,
    "image_size": 32,
    "out_hidden_size": 32,
}


def glm4v() -> Glm4vConfig:
    return Glm4vConfig(vision_config=Glm4vVisionConfig(**TOWER), text_config=Glm4vTextConfig(**QWEN_TEXT), **TOKENS)


def glm4v_moe() -> Glm4vMoeConfig:
    text = Glm4vMoeTextConfig(
        **{**TEXT, "rope_parameters": {**MROPE, "mrope_section": [1, 1, 1], "partial_rotary_factor": 0.5}},
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=24,
        routed_scaling_factor=1.5,
    )
    return Glm4vMoeConfig(vision_config=Glm4vMoeVisionConfig(**TOWER), text_config=text, **TOKENS)


def glm_ocr() -> GlmOcrConfig:
    text = GlmOcrTextConfig(**TEXT, rope_parameters={**MROPE, "mrope_section": [2, 2, 2]})
    return GlmOcrConfig(vision_config=GlmOcrVisionConfig(**TOWER), text_config=text, **TOKENS)


def glm46v() -> Glm46VConfig:
    return Glm46VConfig(vision_config=Glm4vVisionConfig(**TOWER), text_config=Glm4vTextConfig(**QWEN_TEXT), **TOKENS)


def glmga() -> GlmgaConfig:
    return GlmgaConfig(vision_config=Glm4vVisionConfig(**TOWER), text_config=Glm4vTextConfig(**QWEN_TEXT), **TOKENS)


GLM = ("post_self_attn_layernorm", "post_mlp_layernorm")
NORM = "model.visual.post_conv_layernorm"
#: A video's frames have the images' placeholder.
GLM_ROW: dict[str, Any] = {
    **QWEN_ROW,
    "placeholder": "<|begin_of_image|><image><|end_of_image|>",
    "video": partial(video_inputs, IMAGE_TOKEN),
}

ROWS: dict[str, Row] = {
    "glm4v": Row(config=glm4v, added=GLM, pre_norm=NORM, processor=processors.glm, **GLM_ROW),
    "glm4v_moe": Row(config=glm4v_moe, pre_norm=NORM, processor=processors.glm, **MIXTURE, **GLM_ROW),
    "glm46v": Row(config=glm46v, added=GLM, pre_norm=NORM, processor=partial(processors.glm, "Glm46V"), **GLM_ROW),
    "glmga": Row(config=glmga, added=GLM, pre_norm=NORM, processor=partial(processors.glm, "Glm46V"), **GLM_ROW),
    "glm_ocr": Row(config=glm_ocr, added=GLM, processor=partial(processors.glm, "Glm46V"), **GLM_ROW),
}
