"""ShieldGemma 2, loaded as `Gemma3ForConditionalGeneration`: hung as Gemma 3 is."""

from belvedere.families.wrappers.gemma3 import WRAPPER

__all__ = ["WRAPPER"]
