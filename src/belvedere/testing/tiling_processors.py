"""Processors made on the spot for wrappers that cut a picture into tiles, or give its tokens names of their own."""

from __future__ import annotations

from typing import Any

from belvedere.testing.processors import CHAT, PATCH, SIDE, library, tokenizer

__all__ = [
    "aya",
    "cohere",
    "gemma4",
    "glm",
    "idefics2",
    "idefics3",
    "internvl",
    "kimi",
    "lfm2",
    "llama4",
    "mllama",
    "next_",
    "omni",
    "onevision",
]

#: A tile, and the resolutions that a picture is brought to before it is cut.
TILE: dict[str, int] = {"height": SIDE, "width": SIDE}
PINPOINTS = [[32, 64], [64, 32], [64, 64]]
#: Pictures of any size, packed patch by patch.
PACKED: dict[str, Any] = {
    "patch_size": PATCH,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"shortest_edge": 16 * 16 * 2, "longest_edge": 64 * 64 * 2},
}


def glm(kind: str = "Glm4v") -> Any:
    """GLM's: Qwen's pictures, with other names for what stands around them."""
    transformers = library()
    words = tokenizer({"<start>": "<|begin_of_image|>", "<end>": "<|end_of_image|>"})
    return getattr(transformers, f"{kind}Processor")(
        getattr(transformers, f"{kind}ImageProcessor")(**PACKED),
        words,
        getattr(transformers, f"{kind}VideoProcessor")(**PACKED),
        chat_template=CHAT.replace("<image>", "<|begin_of_image|><image><|end_of_image|>"),
    )


def next_() -> Any:
    """LLaVA-NeXT's: the whole picture, and its tiles at the resolution that fits best."""
    transformers = library()
    pixels = transformers.LlavaNextImageProcessor(
        size={"shortest_edge": SIDE}, crop_size=TILE, image_grid_pinpoints=PINPOINTS
    )
    return transformers.LlavaNextProcessor(
        pixels,
        tokenizer(),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT,
    )


def onevision(most: int = 9) -> Any:
    """LLaVA-OneVision's: a prompt's only picture is cut; of several, each is one tile."""
    transformers = library()
    return transformers.LlavaOnevisionProcessor(
        transformers.LlavaOnevisionImageProcessor(size=TILE, image_grid_pinpoints=PINPOINTS),
        tokenizer(),
        transformers.LlavaOnevisionVideoProcessor(size=TILE),
        num_image_tokens=(SIDE // PATCH) ** 2,
        vision_feature_select_strategy="full",
        vision_aspect_ratio=f"anyres_max_{most}",
        chat_template=CHAT,
    )


def internvl(most: int = 3) -> Any:
    """InternVL's: tiles in one run of placeholders."""
    transformers = library()
    words = tokenizer(start_image_token="<start>", end_image_token="<end>", context_image_token="<image>")
    return transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size=TILE, max_patches=most),
        words,
        transformers.InternVLVideoProcessor(size=TILE),
        image_seq_length=4,
        chat_template=CHAT,
    )


def aya() -> Any:
    """Aya Vision's: a tag of its own before each tile, and a placeholder in the prompt that is no token."""
    transformers = library()
    words = tokenizer({"<image>": "<|IMG_PATCH|>", "<start>": "<|START_OF_IMG|>", "<end>": "<|END_OF_IMG|>"})
    return transformers.AyaVisionProcessor(
        transformers.GotOcr2ImageProcessor(size=TILE, max_patches=3),
        words,
        patch_size=PATCH,
        img_size=SIDE,
        downsample_factor=2,
        chat_template=CHAT,
    )


def cohere() -> Any:
    """Cohere 2 Vision's: a line break behind each tile."""
    transformers = library()
    words = tokenizer(boi_token="<start>", eoi_token="<end>", img_line_break_token="<video>")
    # What the image processor calls a patch is an image token: a tile has as many a side.
    pixels = transformers.Cohere2VisionImageProcessor(size=TILE, max_patches=3, patch_size=SIDE // PATCH // 2)
    return transformers.Cohere2VisionProcessor(pixels, words, chat_template=CHAT)


def llama4() -> Any:
    """Llama 4's: separators between tiles, the placeholder before the whole picture."""
    transformers = library()
    spelt = {"<image>": "<|patch|>", "<start>": "<|image_start|>", "<end>": "<|image_end|>", "<video>": "<|image|>"}
    return transformers.Llama4Processor(
        transformers.Llama4ImageProcessor(size=TILE, max_patches=3),
        tokenizer(spelt),
        patch_size=PATCH,
        pixel_shuffle_ratio=0.5,
        chat_template=CHAT.replace("<image>", "<|image|>"),
    )


def idefics3(splits: bool = True) -> Any:
    """Idefics 3's: a tag before each tile, and the whole picture behind them."""
    transformers = library()
    spelt = {"<start>": "<fake_token_around_image>", "<video>": "<global-img>", "<end>": "<end_of_utterance>"}
    pixels = transformers.Idefics3ImageProcessor(
        size={"longest_edge": 2 * SIDE}, max_image_size={"longest_edge": SIDE}, do_image_splitting=splits
    )
    return transformers.Idefics3Processor(pixels, tokenizer(spelt), image_seq_len=4, chat_template=CHAT)


def idefics2(splits: bool = False) -> Any:
    """Idefics 2's: pictures of any size, side by side in a prompt's stack; four tiles and the whole where it splits."""
    transformers = library()
    words = tokenizer({"<end>": "<end_of_utterance>"}, image_boundary_token="<start>")
    pixels = transformers.Idefics2ImageProcessor(
        size={"shortest_edge": 16, "longest_edge": 48}, do_image_splitting=splits
    )
    return transformers.Idefics2Processor(pixels, words, image_seq_len=3, chat_template=CHAT)


def lfm2() -> Any:
    """LFM2-VL's: tiles and a thumbnail of another shape, each padded to one length."""
    transformers = library()
    words = tokenizer(image_start_token="<start>", image_end_token="<end>", image_thumbnail_token="<video>")
    pixels = transformers.Lfm2VlImageProcessor(
        encoder_patch_size=PATCH,
        tile_size=SIDE,
        min_image_tokens=2,
        max_image_tokens=4,
        max_tiles=3,
        max_pixels_tolerance=1.0,
    )
    return transformers.Lfm2VlProcessor(pixels, words, chat_template=CHAT)


def kimi() -> Any:
    """Kimi K2.5's: pictures of any size, a patch as a small picture of its own."""
    transformers = library()
    pixels = transformers.Kimi_K25ImageProcessor(size={"max_height": 64, "max_width": 64}, patch_size=PATCH)
    video = transformers.Kimi_K25VideoProcessor(patch_size=PATCH)
    return transformers.Kimi_K25Processor(
        pixels, tokenizer(), video, chat_template=CHAT.replace("<image>", "<start><image><end>")
    )


def mllama() -> Any:
    """Mllama's: one placeholder for a picture, whatever it is cut into."""
    transformers = library()
    pixels = transformers.MllamaImageProcessor(size=TILE, max_image_tiles=2)
    return transformers.MllamaProcessor(pixels, tokenizer(), chat_template=CHAT)


def gemma4(kind: str = "Gemma4", patch: int = PATCH) -> Any:
    """Gemma 4's: pictures of any size, enlarged to 70 tokens at most and padded to one length."""
    transformers = library()
    given: dict[str, int] = {"patch_size": patch, "pooling_kernel_size": 2, "max_soft_tokens": 70}
    ends: dict[str, Any] = {
        "audio_token": "<unk>",
        "boi_token": "<start>",
        "eoi_token": "<end>",
        "boa_token": "<start>",
        "eoa_token": "<end>",
    }
    words = tokenizer({"<video>": "<|video|>"}, **ends)
    return getattr(transformers, f"{kind}Processor")(
        getattr(transformers, f"{kind}AudioFeatureExtractor")(),
        getattr(transformers, f"{kind}ImageProcessor")(**given),
        words,
        getattr(transformers, f"{kind}VideoProcessor")(**given),
        chat_template=CHAT,
    )


def omni() -> Any:
    """Qwen2.5-Omni's: Qwen's pictures, beside sounds."""
    transformers = library()
    shared: dict[str, Any] = {**PACKED, "size": {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}}
    sounds: dict[str, Any] = {"audio_token": "<unk>", "audio_bos_token": "</s>", "audio_eos_token": "<s>"}
    words = tokenizer(vision_bos_token="<start>", vision_eos_token="<end>", **sounds)
    return transformers.Qwen2_5OmniProcessor(
        transformers.Qwen2VLImageProcessor(**shared),
        transformers.Qwen2VLVideoProcessor(**shared),
        transformers.WhisperFeatureExtractor(),
        words,
        chat_template=CHAT.replace("<image>", "<start><image><end>"),
    )
