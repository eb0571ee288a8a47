"""Qwen3.5's text stack (`Qwen3_5TextModel`): gated DeltaNet blocks, gated attention with QK-norm in every fourth."""

from belvedere.components import TEXT_BLOCK, GatedAttention

RENAME: dict[str, str] = {}
ENVOYS = {**TEXT_BLOCK, "layers.*.self_attn": GatedAttention}
