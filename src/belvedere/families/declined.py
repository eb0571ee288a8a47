"""The image-text-to-text types of transformers that no shelf describes yet, each with what stands in the way.

Together with ``known("wrappers")`` this is transformers' whole mapping, so a new release shows up as a list of names.
The causes were read off transformers 5.24.
"""

__all__ = ["DECLINED", "reason"]

_KINDS: dict[str, tuple[str, ...]] = {
    "its pictures become token ids by an argmax, so no gradient passes and the features are rows of the embedding": (
        "apertus1p5",
        "chameleon",
        "emu3",
    ),
    "it is an encoder-decoder: its logits belong to the decoder, which only attends to what an encoder made of the "
    "picture": (
        "florence2",
        "pix2struct",
        "pp_formulanet",
        "t5gemma2",
        "udop",
        "vision-encoder-decoder",
    ),
    "its text blocks attend to the picture across, and never hold it in their own stream": (
        "blip",
        "evolla",
        "idefics",
    ),
    "its tower is timm's, whose forward is called past the module, so nothing sees it run": (
        "fast_vlm",
        "gemma3n",
        "perception_lm",
    ),
    "a Q-Former stands between its tower and the text, and the text model hangs whole below the root": (
        "blip-2",
        "instructblip",
        "instructblipvideo",
    ),
    "it has two towers or more, or two stacks of pictures, and a tower here is one": (
        "deepseek_ocr2",
        "deepseek_vl_hybrid",
        "dots3_note",
        "muse_spark",
        "video_llava",
    ),
    "its tower runs once per resolution and the rows of all calls are reordered among the placeholders": (
        "llava_next_video",
        "step3p7",
        "unlimited_ocr",
    ),
    "its tower is SAM's kind, which works on maps with padded windows and not on rows of patches": (
        "got_ocr2",
        "pp_chart2table",
    ),
    "it adds image features at several places beside the scatter, by operations of its own": (
        "cohere_compass",
        "granite4_vision",
        "granite_docling",
        "molmo2",
    ),
    "its text stream has another axis or is scaled after the features are written": (
        "glm5_next",
        "hy_v4_vl",
        "hyperclovax_vision_v2",
        "kosmos-2",
        "kosmos-2.5",
        "qwen4_exp",
    ),
    "its picture does not enter through placeholders that a mask could find": ("fuyu", "git", "pi0"),
    "its logits belong to a canvas that a second text stack denoises": ("diffusion_gemma",),
    "it routes image rows to experts of their own, on flat tokens": ("ernie4_5_vl_moe",),
    "its tower changes shape between blocks, or reorders its rows in the middle": (
        "inkling2",
        "inkling2_loop",
        "inkling_mm_model",
        "lfm3_vl",
        "minicpm_ocr",
        "minicpmv4_6",
        "minicpmv4_7",
        "nemotron_h_omni",
    ),
    "its projector's rows and its placeholders do not match one to one": ("ovis2", "hunyuan_vl"),
    "it is a text model that transformers lists here too": ("mistral4",),
    "transformers loads it as Gemma 3's class and leaves that class's text weights random, for it finds them under no "
    "name of a checkpoint of its own": ("shieldgemma2",),
    "nobody has described it yet, and nothing unusual is known of it": (
        "aria",
        "cosmos3_edge",
        "exaone4_5",
        "janus",
        "minimax_m3_vl",
        "mistral_large4",
        "muse_glimmer",
        "paddleocr_vl",
        "qianfan_ocr",
        "qwen3_omni_moe_thinker",
        "video_llama_3",
    ),
}

#: Why each type has no entry.
DECLINED: dict[str, str] = {name: cause for cause, names in sorted(_KINDS.items()) for name in names}


def reason(model_type: str) -> str | None:
    """Why a type has no entry; ``None`` where it is not among those looked at."""
    return DECLINED.get(model_type)
