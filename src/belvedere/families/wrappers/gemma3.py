"""Gemma 3 (`Gemma3ForConditionalGeneration`): SigLIP's patches pooled to a fixed number, normed and projected."""

from belvedere.families.facts import Wrapper, fixed

WRAPPER = Wrapper(tokens=fixed("mm_tokens_per_image"))
