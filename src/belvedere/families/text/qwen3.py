"""Qwen3 (`Qwen3Model`): Llama's names, with a norm on each head's queries and keys."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
