"""Cohere 2 Vision (`Cohere2VisionForConditionalGeneration`): Aya Vision's folding, without its norm."""

from belvedere.families.wrappers.aya_vision import WRAPPER

__all__ = ["WRAPPER"]
