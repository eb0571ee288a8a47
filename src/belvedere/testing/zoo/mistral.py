"""Mistral's later text stacks, alone and under Mistral 3's wrapper: queries scaled by position, a latent attention."""

from math import log
from typing import Any

from transformers import Ministral3Config, Mistral3Config, Mistral4Config

from belvedere.testing import processors
from belvedere.testing.encodings import IMAGE_TOKEN, placed, placed_inputs, sized_inputs
from belvedere.testing.row import MIXTURE, Row
from belvedere.testing.zoo.pixtral import PIXTRAL_ROW
from belvedere.testing.zoo.text import TEXT, TEXT_ROW
from belvedere.testing.zoo.towers import pixtral

#: The scale of the queries changes every four positions.
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 4,
    "max_position_embeddings": 64,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.5,
}


def ministral3() -> Ministral3Config:
    return Ministral3Config(**TEXT, max_position_embeddings=64, rope_parameters=dict(YARN))


def mistral4() -> Mistral4Config:
    given = {key: held for key, held in TEXT.items() if key != "head_dim"}
    return Mistral4Config(
        **{**given, "num_key_value_heads": 4},
        max_position_embeddings=64,
        rope_parameters=dict(YARN),
        first_k_dense_replace=1,
        moe_intermediate_size=24,
        n_routed_experts=6,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        kv_lora_rank=14,
        q_lora_rank=18,
        qk_nope_head_dim=6,
        qk_rope_head_dim=4,
        v_head_dim=12,
    )


def mistral3_ministral3() -> Mistral3Config:
    return Mistral3Config(vision_config=pixtral(), text_config=ministral3(), image_token_index=IMAGE_TOKEN)


def mistral3_mistral4() -> Mistral3Config:
    return Mistral3Config(vision_config=pixtral(), text_config=mistral4(), image_token_index=IMAGE_TOKEN)


def placed_pictures() -> dict[str, Any]:
    return placed(sized_inputs(2))


PLACED: dict[str, Any] = {
    **PIXTRAL_ROW,
    "inputs": placed_pictures,
    "pictures": (6, 3, 2),
    "processor": processors.mistral,
}

ROWS: dict[str, Row] = {
    "ministral3": Row(config=ministral3, **{**TEXT_ROW, "inputs": placed_inputs}),
    "mistral3_ministral3": Row(config=mistral3_ministral3, **PLACED),
    # transformers' auto class loads no Mistral 4 on its own.
    "mistral3_mistral4": Row(
        config=mistral3_mistral4,
        scale=(0.1 * log(16) + 1) ** 2 * 10**-0.5,
        **MIXTURE,
        **PLACED,
    ),
}
