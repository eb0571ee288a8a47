"""Aya Vision (`AyaVisionForConditionalGeneration`): SigLIP's patches folded, normed, through a gated projector."""

from belvedere.families.facts import Wrapper, shuffled

WRAPPER = Wrapper(tokens=shuffled("downsample_factor"), merged="linear_1")
