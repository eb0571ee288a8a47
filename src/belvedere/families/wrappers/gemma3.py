"""Gemma 3 (`Gemma3ForConditionalGeneration`): SigLIP's patches pooled to a fixed number, normed and projected."""

from typing import Any

from belvedere.families.facts import Wrapper


def pooled(config: Any, rows: int, columns: int, before: int) -> int:
    """The projector pools every picture to as many tokens."""
    return int(config.mm_tokens_per_image)


WRAPPER = Wrapper(tokens=pooled)
