"""Cohere (`CohereModel`): attention and MLP side by side after one norm; the head scales its logits."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
