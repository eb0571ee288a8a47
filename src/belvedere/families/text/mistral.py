"""Mistral (`MistralModel`): Llama's names, with an optional sliding window."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
