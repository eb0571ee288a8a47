"""LLaVA and its kin: one tower, one projector, and a scatter over the placeholders."""

from functools import partial
from typing import Any

from transformers import DeepseekVLConfig, LlavaConfig, PreTrainedConfig, VipLlavaConfig

from belvedere.testing.encodings import IMAGE_TOKEN, llava_inputs, sized_inputs
from belvedere.testing.row import Row
from belvedere.testing.zoo.pixtral import PIXTRAL_ROW
from belvedere.testing.zoo.text import llama, mistral, qwen2
from belvedere.testing.zoo.towers import CLIP, clip, pixtral, siglip


def llava(tower: PreTrainedConfig | None = None, text: PreTrainedConfig | None = None, **given: Any) -> LlavaConfig:
    given = {"vision_feature_layer": -2, **given}
    return LlavaConfig(
        vision_config=tower or clip(), text_config=text or llama(), image_token_index=IMAGE_TOKEN, **given
    )


def llava_siglip() -> LlavaConfig:
    return llava(siglip(), qwen2(), vision_feature_layer=-1, vision_feature_select_strategy="full")


def llava_pixtral() -> LlavaConfig:
    return llava(pixtral(), mistral(), vision_feature_layer=-1, vision_feature_select_strategy="full")


def vipllava() -> VipLlavaConfig:
    return VipLlavaConfig(
        vision_config=clip(), text_config=llama(), image_token_index=IMAGE_TOKEN, vision_feature_layer=(-2, 1)
    )


def deepseek_vl() -> DeepseekVLConfig:
    return DeepseekVLConfig(vision_config=siglip(), text_config=llama(), image_token_id=IMAGE_TOKEN)


#: What LLaVA does not read of a tower of three blocks under ``vision_feature_layer=-2``.
LAST: dict[str, Any] = {
    "unread": ("vision.layers[2].", "vision.tower_output"),
    "shared": ("vision.layers[2].layer_input",),
}

ROWS: dict[str, Row] = {
    "llava": Row(config=llava, inputs=llava_inputs, tower=CLIP, **LAST),
    "llava_siglip": Row(config=llava_siglip, inputs=llava_inputs, tower=CLIP, unread=("vision.tower_output",)),
    "llava_pixtral": Row(
        config=llava_pixtral, **{**PIXTRAL_ROW, "inputs": partial(sized_inputs, 1), "pictures": (24, 12, 8)}
    ),
    "vipllava": Row(
        config=vipllava,
        inputs=llava_inputs,
        tower=CLIP,
        unread=LAST["unread"],
        shared=("vision.layers[1].layer_input", "vision.layers[2].layer_input"),
    ),
    "deepseek_vl": Row(config=deepseek_vl, inputs=llava_inputs, tower="model.vision_model.encoder.layers"),
}
