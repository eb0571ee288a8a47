"""Gemma 3's text stack (`Gemma3TextModel`): what attention and MLP add passes a norm first; windows in most blocks."""

from belvedere.components import TEXT_BLOCK, SandwichLayer

RENAME: dict[str, str] = {}
ENVOYS = {**TEXT_BLOCK, "layers.*": SandwichLayer}
