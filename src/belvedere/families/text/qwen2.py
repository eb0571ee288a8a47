"""Qwen2 (`Qwen2Model`): Llama's names, with biases on queries, keys and values."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
