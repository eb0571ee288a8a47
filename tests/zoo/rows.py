"""One row per checkpoint: its config, its inputs, and what it may lack, with the reason."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import nnsight  # noqa: F401 - before any transformers model, which nnsight patches
import torch
from transformers import (
    CLIPVisionConfig,
    DeepseekVLConfig,
    Gemma3Config,
    Gemma3TextConfig,
    GemmaConfig,
    LightOnOcrConfig,
    LlamaConfig,
    LlavaConfig,
    Mistral3Config,
    MistralConfig,
    PaliGemmaConfig,
    PixtralVisionConfig,
    PreTrainedConfig,
    Qwen2_5_VLConfig,
    Qwen2Config,
    Qwen2VLConfig,
    Qwen3_5Config,
    Qwen3_5TextConfig,
    Qwen3_5VisionConfig,
    Qwen3Config,
    SiglipVisionConfig,
    VipLlavaConfig,
)

IMAGE_TOKEN, VIDEO_TOKEN = 5, 6


TEXT: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}


def llama() -> LlamaConfig:
    return LlamaConfig(**TEXT)


def qwen2() -> Qwen2Config:
    return Qwen2Config(**{**TEXT, "head_dim": 8})


def qwen3() -> Qwen3Config:
    return Qwen3Config(**TEXT)


def mistral() -> MistralConfig:
    return MistralConfig(**TEXT)


def gemma() -> GemmaConfig:
    return GemmaConfig(**TEXT)


def gemma3_text() -> Gemma3TextConfig:
    return Gemma3TextConfig(
        **TEXT,
        sliding_window=6,
        query_pre_attn_scalar=12,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
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


def llava(tower: PreTrainedConfig | None = None, text: PreTrainedConfig | None = None, **given: Any) -> LlavaConfig:
    given = {"vision_feature_layer": -2, **given}
    return LlavaConfig(vision_config=tower or clip(), text_config=text or llama(), image_token_id=IMAGE_TOKEN, **given)


def llava_siglip() -> LlavaConfig:
    return llava(siglip(), qwen2(), vision_feature_layer=-1, vision_feature_select_strategy="full")


def llava_pixtral() -> LlavaConfig:
    return llava(pixtral(), mistral(), vision_feature_layer=-1, vision_feature_select_strategy="full")


def vipllava() -> VipLlavaConfig:
    return VipLlavaConfig(
        vision_config=clip(), text_config=llama(), image_token_index=IMAGE_TOKEN, vision_feature_layer=(-2, 1)
    )


def paligemma() -> PaliGemmaConfig:
    return PaliGemmaConfig(
        vision_config=siglip(),
        text_config=gemma(),
        image_token_index=IMAGE_TOKEN,
        projection_dim=32,
        hidden_size=32,
        vocab_size=64,
    )


def gemma3() -> Gemma3Config:
    return Gemma3Config(
        vision_config=siglip(), text_config=gemma3_text(), image_token_index=IMAGE_TOKEN, mm_tokens_per_image=4
    )


def deepseek_vl() -> DeepseekVLConfig:
    return DeepseekVLConfig(vision_config=siglip(), text_config=llama(), image_token_id=IMAGE_TOKEN)


def mistral3() -> Mistral3Config:
    return Mistral3Config(vision_config=pixtral(), text_config=mistral(), image_token_index=IMAGE_TOKEN)


def lighton_ocr() -> LightOnOcrConfig:
    return LightOnOcrConfig(vision_config=pixtral(), text_config=qwen3(), image_token_id=IMAGE_TOKEN)


QWEN: dict[str, Any] = {
    "image_token_id": IMAGE_TOKEN,
    "video_token_id": VIDEO_TOKEN,
    "vision_start_token_id": 3,
    "vision_end_token_id": 4,
}
QWEN_TEXT = {key: held for key, held in TEXT.items() if key != "head_dim"} | {"rope_parameters": MROPE}


def qwen2_vl() -> Qwen2VLConfig:
    tower = {"embed_dim": 24, "hidden_size": 32, "depth": 3, "num_heads": 2, "patch_size": 8, "mlp_ratio": 2}
    return Qwen2VLConfig(vision_config=tower, text_config=QWEN_TEXT, **QWEN)


def qwen2_5_vl() -> Qwen2_5_VLConfig:
    tower = {
        "hidden_size": 24,
        "intermediate_size": 40,
        "out_hidden_size": 32,
        "depth": 3,
        "num_heads": 2,
        "patch_size": 8,
        "window_size": 32,
        "fullatt_block_indexes": [1],
    }
    return Qwen2_5_VLConfig(vision_config=tower, text_config=QWEN_TEXT, **QWEN)


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


def llava_inputs(tokens: int = 16) -> dict[str, torch.Tensor]:
    """Two prompts with a picture each, the second with less text and so padded on the left."""
    made = torch.Generator().manual_seed(0)
    picture = [IMAGE_TOKEN] * tokens
    ids = torch.tensor([[1, *words(3, 1), *picture, *words(4, 2)], [0, 0, 1, *words(2, 3), *picture, *words(3, 4)]])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(2, 3, 32, 32, generator=made),
    }


def gemma_inputs(tokens: int = 16) -> dict[str, torch.Tensor]:
    """LLaVA's two prompts, with the token types that tell a picture's tokens apart."""
    inputs = llava_inputs(tokens)
    return {**inputs, "token_type_ids": (inputs["input_ids"] == IMAGE_TOKEN).long()}


def sized_inputs(fold: int) -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, padded to one size for the tower."""
    made = torch.Generator().manual_seed(0)
    sizes = [(32, 48), (48, 16), (16, 32)]
    shown = [[3, *[IMAGE_TOKEN] * ((h // 8 // fold) * (w // 8 // fold)), 4] for h, w in sizes]
    first = [*words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(4, 3)]
    second = [*words(5, 4), *shown[2], *words(3, 5)]
    ids = torch.tensor([first, [0] * (len(first) - len(second)) + second])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(3, 3, 48, 48, generator=made),
        "image_sizes": torch.tensor(sizes),
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
        parts: Native names of a tower block's attention and MLP.
        added: Native names of the modules of a text block whose outputs are added to the stream, where these are not the
            attention and the MLP themselves.
        pictures: The image tokens of each picture.
        prompts: How many pictures each of the two prompts shows.
        unread: Values that nothing on the way to the logits depends on.
        shared: Values whose tensor someone else reads too, so that an edit in place is seen there.
    """

    config: Callable[[], PreTrainedConfig]
    inputs: Callable[[], dict[str, torch.Tensor]]
    auto: str = "AutoModelForImageTextToText"
    blocks: str = "model.language_model.layers"
    tower: str = ""
    parts: tuple[str, str] = ("self_attn", "mlp")
    added: tuple[str, str] | None = None
    pictures: tuple[int, ...] = (16, 16)
    prompts: tuple[int, int] = (1, 1)
    unread: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    def solo(self, number: int) -> dict[str, torch.Tensor]:
        """One prompt of the batch, without its padding, and with its own pictures."""
        inputs = self.inputs()
        real = inputs["attention_mask"][number].bool()
        own = {key: held[number : number + 1, real] for key, held in inputs.items() if held.shape[:2] == (2, len(real))}
        if not self.tower:
            return own
        start = sum(self.prompts[:number])
        shown = slice(start, start + self.prompts[number])
        grids = inputs.get("image_grid_thw")
        patches = None if grids is None else grids.prod(-1).tolist()
        rows = shown if patches is None else slice(sum(patches[: shown.start]), sum(patches[: shown.stop]))
        own["pixel_values"] = inputs["pixel_values"][rows]
        return own | {key: inputs[key][shown] for key in ("image_grid_thw", "image_sizes") if key in inputs}


CLIP = "model.vision_tower.encoder.layers"
#: What LLaVA does not read of a tower of three blocks under ``vision_feature_layer=-2``.
LAST = {"unread": ("vision.layers[2].", "vision.tower_output"), "shared": ("vision.layers[2].layer_input",)}
#: Three pictures, two of them in the first prompt, packed into one row of patches.
PACKED: dict[str, Any] = {"prompts": (2, 1), "pictures": (6, 6, 2)}
QWEN_ROW = {**PACKED, "inputs": qwen_inputs, "tower": "model.visual.blocks", "parts": ("attn", "mlp")}
PIXTRAL_ROW: dict[str, Any] = {
    "inputs": partial(sized_inputs, 2),
    "tower": "model.vision_tower.transformer.layers",
    "parts": ("attention", "feed_forward"),
    **PACKED,
}
GEMMA3 = ("post_attention_layernorm", "post_feedforward_layernorm")
TEXT_ROW: dict[str, Any] = {"inputs": text_inputs, "auto": "AutoModelForCausalLM", "blocks": "model.layers"}

ROWS: dict[str, Row] = {
    "llava": Row(config=llava, inputs=llava_inputs, tower=CLIP, **LAST),
    "qwen3_5": Row(config=qwen3_5, unread=("state_output",), **QWEN_ROW),
    "llama": Row(config=llama, **TEXT_ROW),
    "qwen3_5_text": Row(config=qwen3_5_text, unread=("state_output",), **TEXT_ROW),
    "llava_siglip": Row(config=llava_siglip, inputs=llava_inputs, tower=CLIP, unread=("vision.tower_output",)),
    "llava_pixtral": Row(
        config=llava_pixtral, **{**PIXTRAL_ROW, "inputs": partial(sized_inputs, 1), "pictures": (24, 12, 8)}
    ),
    "vipllava": Row(config=vipllava, inputs=llava_inputs, tower=CLIP, **LAST),
    "paligemma": Row(config=paligemma, inputs=gemma_inputs, tower=CLIP),
    "gemma3": Row(config=gemma3, inputs=partial(gemma_inputs, 4), tower=CLIP, pictures=(4, 4), added=GEMMA3),
    "deepseek_vl": Row(config=deepseek_vl, inputs=llava_inputs, tower="model.vision_model.encoder.layers"),
    "mistral3": Row(config=mistral3, **{**PIXTRAL_ROW, "pictures": (6, 3, 2)}),
    "lighton_ocr": Row(
        config=lighton_ocr,
        **{**PIXTRAL_ROW, "tower": "model.vision_encoder.transformer.layers", "pictures": (6, 3, 2)},
    ),
    "qwen2_vl": Row(config=qwen2_vl, **QWEN_ROW),
    "qwen2_5_vl": Row(config=qwen2_5_vl, **QWEN_ROW),
    "qwen2": Row(config=qwen2, **TEXT_ROW),
    "qwen3": Row(config=qwen3, **TEXT_ROW),
    "mistral": Row(config=mistral, **TEXT_ROW),
    "gemma": Row(config=gemma, **TEXT_ROW),
    "gemma3_text": Row(config=gemma3_text, added=GEMMA3, **TEXT_ROW),
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
