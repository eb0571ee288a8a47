"""Processors made on the spot: a word-level tokenizer of 64 words, and the model's own image processor at toy size."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = [
    "CHAT",
    "PATCH",
    "SIDE",
    "SPECIAL",
    "WORDS",
    "deepseek",
    "gemma3",
    "library",
    "llava",
    "mistral",
    "ocr",
    "paligemma",
    "qwen",
    "tokenizer",
]

#: The special tokens' ids, as the zoo's configs and encodings have them.
SPECIAL = ("<pad>", "<s>", "</s>", "<start>", "<end>", "<image>", "<video>", "<unk>")
#: The words of prompts; everything else is unknown.
WORDS = (
    *(
        "what",
        "where",
        "how",
        "is",
        "are",
        "in",
        "on",
        "of",
        "this",
        "that",
        "the",
        "a",
        "and",
        "to",
        "do",
        "you",
        "see",
    ),
    *("picture", "image", "dog", "cat", "house", "tree", "car", "square", "circle", "color", "shape", "side", "word"),
    *(
        "red",
        "green",
        "blue",
        "yellow",
        "black",
        "white",
        "big",
        "small",
        "old",
        "new",
        "left",
        "right",
        "above",
        "below",
    ),
    *("one", "two", "three", "first", "second", "many", "describe", "with", "?", ".", ",", ":"),
)
#: What is one word: a tag, letters, or a mark.
WORD = r"<[^<>\s]+>|\w+|[^\w\s]"
#: What every tokenizer calls some of its special tokens.
NAMED = {"image_token": "<image>", "video_token": "<video>", "start_token": "<start>", "end_token": "<end>"}
#: A chat template that writes a message's parts one after the other.
CHAT = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{{ ' <image> ' if part['type'] == 'image' else part['text'] }}{% endfor %}{% endfor %}"
)
SIDE, PATCH = 32, 8


def library() -> Any:
    """Heavy, so imported at first use; untyped in parts."""
    return import_module("transformers")


def tokenizer(spelt: Mapping[str, str] | None = None, **named: str) -> Any:
    """A tokenizer of 64 tokens, the first eight special; padding on the left.

    A tag such as ``<row_1_col_2>`` is one token, as it is in a checkpoint's own vocabulary.

    Args:
        spelt: What this checkpoint writes for some of the special tokens.
        **named: Further names that a processor asks its tokenizer for, such as ``boi_token``.
    """
    import tokenizers

    transformers = library()
    special = [(spelt or {}).get(word, word) for word in SPECIAL]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS][:64])}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(WORD), "removed", invert=True)
    pad, begin, end, *_ = special
    own = {name: special[SPECIAL.index(word)] for name, word in NAMED.items()} | named
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=pad,
        bos_token=begin,
        eos_token=end,
        unk_token="<unk>",
        extra_special_tokens=own,
        padding_side="left",
        model_max_length=1024,
    )


def _square(name: str, **given: Any) -> Any:
    transformers = library()
    size = {"height": SIDE, "width": SIDE}
    return getattr(transformers, name)(size=size, do_convert_rgb=True, **given)


def llava(before: int = 1, tower: str = "CLIPImageProcessor", strategy: str = "default") -> Any:
    """LLaVA's processor: pictures become squares of one size."""
    transformers = library()
    size: dict[str, Any] = {"shortest_edge": SIDE} if tower == "CLIPImageProcessor" else {"height": SIDE, "width": SIDE}
    pixels = getattr(transformers, tower)(size=size, crop_size={"height": SIDE, "width": SIDE})
    return transformers.LlavaProcessor(
        pixels,
        tokenizer(),
        patch_size=PATCH,
        vision_feature_select_strategy=strategy,
        num_additional_image_tokens=before,
        chat_template=CHAT,
    )


def paligemma() -> Any:
    """PaliGemma's: the placeholders are written in front of the prompt."""
    transformers = library()
    pixels = _square("SiglipImageProcessor")
    pixels.image_seq_length = (SIDE // PATCH) ** 2
    return transformers.PaliGemmaProcessor(pixels, tokenizer(), chat_template=CHAT)


def gemma3() -> Any:
    """Gemma 3's: ``<start>`` in the prompt becomes a whole picture."""
    transformers = library()
    words = tokenizer(boi_token="<start>", eoi_token="<end>")
    chat = CHAT.replace("<image>", "<start>")
    return transformers.Gemma3Processor(_square("Gemma3ImageProcessor"), words, image_seq_length=4, chat_template=chat)


def deepseek() -> Any:
    """DeepSeek-VL's: pictures are padded to squares."""
    transformers = library()
    return transformers.DeepseekVLProcessor(
        _square("DeepseekVLImageProcessor", min_size=14), tokenizer(), num_image_tokens=16, chat_template=CHAT
    )


def mistral(fold: int = 2) -> Any:
    """Pixtral's and Mistral 3's: pictures of any size, a token at the end of each line of patches."""
    transformers = library()
    pixels = transformers.PixtralImageProcessor(size={"longest_edge": 48}, patch_size={"height": 8, "width": 8})
    return transformers.PixtralProcessor(
        pixels,
        tokenizer(),
        patch_size=PATCH,
        spatial_merge_size=fold,
        image_token="<image>",
        image_break_token="<start>",
        image_end_token="<end>",
        chat_template=CHAT,
    )


def ocr() -> Any:
    """LightOnOCR's: Pixtral's pictures without tokens between their lines."""
    transformers = library()
    pixels = transformers.PixtralImageProcessor(size={"longest_edge": 48}, patch_size={"height": 8, "width": 8})
    words = tokenizer(image_break_token="<start>", image_end_token="<end>")
    return transformers.LightOnOcrProcessor(pixels, words, patch_size=PATCH, spatial_merge_size=2, chat_template=CHAT)


def qwen(kind: str = "Qwen2VLProcessor") -> Any:
    """Qwen's: pictures of any size, packed patch by patch in merge-block order."""
    transformers = library()
    shared: dict[str, Any] = {
        "patch_size": PATCH,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "size": {"shortest_edge": 16 * 16, "longest_edge": 64 * 64},
    }
    # Left unsaid, each use of it warns that the default will change.
    capped = {} if kind == "Qwen3VLProcessor" else {"cap_pixels_per_frame": False}
    video = {"Qwen3VLProcessor": "Qwen3VLVideoProcessor"}.get(kind, "Qwen2VLVideoProcessor")
    words = tokenizer(vision_start_token="<start>", vision_end_token="<end>")
    return getattr(transformers, kind)(
        transformers.Qwen2VLImageProcessor(**shared),
        words,
        getattr(transformers, video)(**shared, **capped),
        chat_template=CHAT.replace("<image>", "<start><image><end>"),
    )
