"""Aya Vision (`AyaVisionForConditionalGeneration`): tiles of SigLIP's patches, folded and normed, a gated projector."""

from belvedere.families.facts import Wrapper, shuffled
from belvedere.families.runs import by_run

# A tag before each tile, or a line break behind it.
WRAPPER = Wrapper(tiled=by_run(shuffled("downsample_factor"), apart=1), merged="linear_1")
