"""InternVL (`InternVLForConditionalGeneration`): patches shuffled four into one, then an MLP behind a norm."""

from belvedere.families.facts import Wrapper, shuffled

WRAPPER = Wrapper(tokens=shuffled, merged="projector.linear_1")
