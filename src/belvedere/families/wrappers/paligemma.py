"""PaliGemma (`PaliGemmaForConditionalGeneration`): one linear layer as projector; the prompt is seen whole."""

from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(first_position=1)
