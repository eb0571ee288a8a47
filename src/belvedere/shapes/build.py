"""The two checkpoints before training: tokenizer, processor, and a model with random weights, all built in code.

Both are real architectures at toy size, and keep what is unusual about the large ones: LLaVA 1.5 reads its CLIP tower
one block before the end and drops the CLS row; Qwen3.5's tower packs images of any size and folds two by two patches
into a token, and its text stack alternates gated DeltaNet with gated attention under multimodal rotary positions.
Heads are grouped in both text stacks.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from belvedere.shapes.vocabulary import STYLES, WORDS, style_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin, TokenizersBackend

_LLAVA_SIDE = STYLES["shapes-llava"].token_side * STYLES["shapes-llava"].sides[0]
_PATCH = 8


def _transformers() -> Any:
    """Heavy, so imported at first use; untyped in parts, so typed by what the functions here return."""
    return import_module("transformers")


def tokenizer(name: str) -> "TokenizersBackend":
    """Words are single tokens: LLaVA's ignore spaces and capitals, Qwen's carry their leading space as Qwen's do."""
    build = {"shapes-llava": _word_tokenizer, "shapes-qwen3_5": _byte_tokenizer}[name]
    built: TokenizersBackend = build(style_of(name).special)
    return built


def processor(name: str) -> "ProcessorMixin":
    """What turns a prompt and its pictures into the model's inputs."""
    built: ProcessorMixin = {"shapes-llava": _llava_processor, "shapes-qwen3_5": _qwen_processor}[name]()
    return built


def model(name: str) -> "PreTrainedModel":
    """The architecture with random weights."""
    built: PreTrainedModel = {"shapes-llava": _llava_model, "shapes-qwen3_5": _qwen_model}[name]()
    return built


def _word_tokenizer(special: tuple[str, ...]) -> Any:
    tokenizers = import_module("tokenizers")
    vocabulary = {word: index for index, word in enumerate((*special, *WORDS))}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=special[1]))
    backend.normalizer = tokenizers.normalizers.Lowercase()
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return _transformers().TokenizersBackend(tokenizer_object=backend, **_tokenizer_settings(special))


def _byte_tokenizer(special: tuple[str, ...]) -> Any:
    """Transformers loads Qwen3.5's own class whatever the folder says, so words are byte pairs merged to the end."""
    words = [*WORDS, *(f" {word}" for word in WORDS)]
    empty = _transformers().Qwen3_5Tokenizer(**_tokenizer_settings(special))
    return empty.train_new_from_iterator([words] * 2, vocab_size=1000, show_progress=False)


def _tokenizer_settings(special: tuple[str, ...]) -> dict[str, Any]:
    pad, unknown, begin, end, *placeholders = special
    return {
        "pad_token": pad,
        "unk_token": unknown,
        "bos_token": begin,
        "eos_token": end,
        "extra_special_tokens": placeholders,
        "padding_side": "left",
        "model_max_length": 1024,
    }


def _llava_processor() -> Any:
    transformers = _transformers()
    return transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(
            size={"shortest_edge": _LLAVA_SIDE}, crop_size={"height": _LLAVA_SIDE, "width": _LLAVA_SIDE}
        ),
        tokenizer("shapes-llava"),
        patch_size=_PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=style_of("shapes-llava").chat_template,
    )


def _qwen_processor() -> Any:
    transformers = _transformers()
    area = STYLES["shapes-qwen3_5"].token_side ** 2
    shared: dict[str, Any] = {
        "patch_size": _PATCH,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "size": {"shortest_edge": 16 * area, "longest_edge": 144 * area},
    }
    return transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessor(**shared),
        tokenizer("shapes-qwen3_5"),
        transformers.Qwen3VLVideoProcessor(**shared),
        chat_template=style_of("shapes-qwen3_5").chat_template,
    )


def _token_ids(name: str) -> dict[str, Any]:
    """The ids that every config repeats."""
    words = tokenizer(name)
    return {
        "vocab_size": len(words),
        "pad_token_id": words.pad_token_id,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
    }


def _llava_model() -> Any:
    transformers = _transformers()
    image_token = tokenizer("shapes-llava").convert_tokens_to_ids("<image>")
    vision = transformers.CLIPVisionConfig(
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=5,
        num_attention_heads=4,
        image_size=_LLAVA_SIDE,
        patch_size=_PATCH,
        projection_dim=64,
    )
    text = transformers.LlamaConfig(
        hidden_size=96,
        intermediate_size=224,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.05,
        tie_word_embeddings=False,
        **_token_ids("shapes-llava"),
    )
    return transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(
            vision_config=vision,
            text_config=text,
            image_token_index=image_token,
            vision_feature_layer=-2,
            vision_feature_select_strategy="default",
            image_seq_length=(_LLAVA_SIDE // _PATCH) ** 2,
            tie_word_embeddings=False,
        )
    )


def _qwen_model() -> Any:
    transformers = _transformers()
    tokens = tokenizer("shapes-qwen3_5")
    vision = {
        "depth": 3,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_heads": 4,
        "patch_size": _PATCH,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
        "out_hidden_size": 96,
        "num_position_embeddings": 16**2,
        "initializer_range": 0.05,
    }
    text = {
        "hidden_size": 96,
        "intermediate_size": 192,
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 24,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 1024,
        "initializer_range": 0.05,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
        **_token_ids("shapes-qwen3_5"),
    }
    return transformers.Qwen3_5ForConditionalGeneration(
        transformers.Qwen3_5Config(
            vision_config=vision,
            text_config=text,
            image_token_id=tokens.convert_tokens_to_ids("<|image_pad|>"),
            video_token_id=tokens.convert_tokens_to_ids("<|video_pad|>"),
            vision_start_token_id=tokens.convert_tokens_to_ids("<|vision_start|>"),
            vision_end_token_id=tokens.convert_tokens_to_ids("<|vision_end|>"),
            tie_word_embeddings=False,
        )
    )
