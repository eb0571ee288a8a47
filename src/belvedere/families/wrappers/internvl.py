"""InternVL (`InternVLForConditionalGeneration`): patches shuffled four into one, then an MLP behind a norm."""

from belvedere.families.facts import Wrapper, downsampled

WRAPPER = Wrapper(tokens=downsampled, merged="linear_1", normed=True)
