"""Qwen3-VL's text stack (`Qwen3VLTextModel`): QK-norm, and tower features added after its first blocks."""

from belvedere.components import TEXT_BLOCK, DeepstackLayer, DeepstackText

RENAME: dict[str, str] = {}
ENVOYS = {**TEXT_BLOCK, "layers.*": DeepstackLayer}
ROOT = DeepstackText
