"""Gemma 4 unified's text stack (`Gemma4UnifiedTextModel`): Gemma 4's, without an input of a block's own."""

from belvedere.components import TEXT_BLOCK, ScaledLayer

RENAME: dict[str, str] = {}
ENVOYS = {**TEXT_BLOCK, "layers.*": ScaledLayer}
