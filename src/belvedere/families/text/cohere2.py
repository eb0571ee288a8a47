"""Cohere 2 (`Cohere2Model`): Cohere's block; windows with rotary positions, none in the blocks that see everything."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
