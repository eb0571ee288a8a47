"""Ministral 3 (`Ministral3Model`): Llama's names; queries grow with the logarithm of a far position."""

from belvedere.families.text.llama import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
