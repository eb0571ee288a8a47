"""Llama (`LlamaModel`): the names that all others are measured by."""

from belvedere.components import TEXT_BLOCK

RENAME: dict[str, str] = {}
ENVOYS = TEXT_BLOCK
