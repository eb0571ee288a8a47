"""LFM2-VL (`Lfm2VlForConditionalGeneration`): SigLIP 2's patches, folded in one row for all pictures; tiles."""

from belvedere.families.facts import Wrapper, shuffled
from belvedere.families.runs import by_run

TOKENS = shuffled("downsample_factor")
# A tag stands before each tile.
WRAPPER = Wrapper(tokens=TOKENS, tiled=by_run(TOKENS, apart=1), merged="linear_1")
