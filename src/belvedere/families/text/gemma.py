"""Gemma (`GemmaModel`): Llama's names; the embedding scales what it returns by the root of the width."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
