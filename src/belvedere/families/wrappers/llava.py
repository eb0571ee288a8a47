"""LLaVA (`LlavaForConditionalGeneration`): one tower block's rows, CLS dropped, through a two-layer projector."""

from belvedere.families.facts import Wrapper

WRAPPER = Wrapper()
