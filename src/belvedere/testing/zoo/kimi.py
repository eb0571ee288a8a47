"""Kimi K2.5 and DeepSeek-V3, its text stack: a latent attention, routed experts, MoonViT as tower."""

import torch
from transformers import DeepseekV3Config, Kimi_K25Config, Kimi_K25VisionConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, VIDEO_TOKEN, framed_inputs, qwen_inputs
from belvedere.testing.row import MIXTURE, PACKED, Row
from belvedere.testing.zoo.text import TEXT, TEXT_ROW


def deepseek_v3() -> DeepseekV3Config:
    given = {key: held for key, held in TEXT.items() if key != "head_dim"}
    return DeepseekV3Config(
        **{**given, "num_key_value_heads": 4},
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


def kimi_k25() -> Kimi_K25Config:
    tower = Kimi_K25VisionConfig(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=2,
        patch_size=8,
        pos_emb_height=6,
        pos_emb_width=6,
    )
    return Kimi_K25Config(
        vision_config=tower,
        text_config=deepseek_v3(),
        projection_hidden_size=24,
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
        vision_start_token_id=3,
        vision_end_token_id=4,
        tie_word_embeddings=False,
    )


def kimi_inputs() -> dict[str, torch.Tensor]:
    """Qwen's prompts and pictures, a patch as a small picture of its own."""
    inputs = qwen_inputs()
    patches = inputs.pop("pixel_values")
    inputs.pop("mm_token_type_ids")
    return {**inputs, "pixel_values": patches[:, : 3 * 8 * 8].reshape(-1, 3, 8, 8)}


def kimi_video() -> dict[str, torch.Tensor]:
    """A video of two frames of 4 x 6 patches, whose frames are averaged to 6 tokens."""
    made = torch.Generator().manual_seed(0)
    return framed_inputs(
        (6,),
        pixel_values_videos=torch.randn(48, 3, 8, 8, generator=made),
        video_grid_thw=torch.tensor([[2, 4, 6]]),
    )


ROWS: dict[str, Row] = {
    "deepseek_v3": Row(config=deepseek_v3, **MIXTURE, **TEXT_ROW),
    "kimi_k25": Row(
        config=kimi_k25,
        inputs=kimi_inputs,
        video=kimi_video,
        processor=processors.kimi,
        placeholder="<start><image><end>",
        tower="model.vision_tower.layers",
        parts=("attn", "mlp"),
        **PACKED,
        **MIXTURE,
    ),
}
