"""LFM2-VL (`Lfm2VlForConditionalGeneration`): SigLIP 2's patches, folded in one row for all pictures."""

from belvedere.families.facts import Wrapper, shuffled

WRAPPER = Wrapper(tokens=shuffled("downsample_factor"), merged="linear_1")
