"""Gemma 2 (`Gemma2Model`): Gemma 3's norms around each part; attention scores and logits pass a softcap."""

from belvedere.families.text.gemma3_text import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
