"""Qwen3-VL and the mixtures of its kin: tower features between text blocks, routed experts."""

from functools import partial
from typing import Any

from transformers import (
    Cosmos3OmniConfig,
    Qwen3_5MoeConfig,
    Qwen3_5MoeTextConfig,
    Qwen3_5MoeVisionConfig,
    Qwen3VLConfig,
    Qwen3VLMoeConfig,
    Qwen3VLMoeTextConfig,
    Qwen3VLMoeVisionConfig,
    Qwen3VLTextConfig,
    Qwen3VLVisionConfig,
)

from belvedere.testing import processors
from belvedere.testing.row import MIXTURE, Row
from belvedere.testing.zoo.qwen import QWEN, QWEN_ROW
from belvedere.testing.zoo.text import MROPE, TEXT, TEXT_ROW, qwen3_5_text

TOWER: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "depth": 3,
    "num_heads": 2,
    "patch_size": 8,
    "out_hidden_size": 32,
    "num_position_embeddings": 36,
}
#: Two of three tower blocks have a merger, so two of three text blocks are followed by features.
DEEPSTACK: dict[str, Any] = {**TOWER, "deepstack_visual_indexes": [0, 2]}
QWEN3_TEXT: dict[str, Any] = {**TEXT, "rope_parameters": {**MROPE, "mrope_section": [2, 2, 2]}}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def qwen3_vl() -> Qwen3VLConfig:
    return Qwen3VLConfig(
        vision_config=Qwen3VLVisionConfig(**DEEPSTACK), text_config=Qwen3VLTextConfig(**QWEN3_TEXT), **QWEN
    )


def cosmos3_omni() -> Cosmos3OmniConfig:
    return Cosmos3OmniConfig(
        vision_config=Qwen3VLVisionConfig(**DEEPSTACK), text_config=Qwen3VLTextConfig(**QWEN3_TEXT), **QWEN
    )


def qwen3_vl_moe() -> Qwen3VLMoeConfig:
    text = Qwen3VLMoeTextConfig(**QWEN3_TEXT, **EXPERTS, mlp_only_layers=[1])
    return Qwen3VLMoeConfig(vision_config=Qwen3VLMoeVisionConfig(**DEEPSTACK), text_config=text, **QWEN)


def qwen3_5_moe_text() -> Qwen3_5MoeTextConfig:
    given = {key: held for key, held in qwen3_5_text().to_dict().items() if key not in ("model_type", "dtype")}
    return Qwen3_5MoeTextConfig(**given, **EXPERTS, shared_expert_intermediate_size=28)


def qwen3_5_moe() -> Qwen3_5MoeConfig:
    return Qwen3_5MoeConfig(vision_config=Qwen3_5MoeVisionConfig(**TOWER), text_config=qwen3_5_moe_text(), **QWEN)


#: The stream that leaves a tower block with a merger is that merger's too.
TAPPED = ("vision.layers[1].layer_input",)

#: All of them are spoken to through Qwen3-VL's processor.
SPOKEN: dict[str, Any] = {**QWEN_ROW, "processor": partial(processors.qwen, "Qwen3VLProcessor")}

ROWS: dict[str, Row] = {
    "qwen3_vl": Row(config=qwen3_vl, shared=TAPPED, **SPOKEN),
    "cosmos3_omni": Row(config=cosmos3_omni, shared=TAPPED, **SPOKEN),
    "qwen3_vl_moe": Row(config=qwen3_vl_moe, shared=TAPPED, **MIXTURE, **SPOKEN),
    "qwen3_5_moe_text": Row(config=qwen3_5_moe_text, **MIXTURE, **TEXT_ROW),
    "qwen3_5_moe": Row(config=qwen3_5_moe, **MIXTURE, **SPOKEN),
}
