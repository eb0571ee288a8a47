"""InternVL (`InternVLForConditionalGeneration`): patches shuffled four into one, then an MLP behind a norm; tiles."""

from belvedere.families.facts import Wrapper, by_ratio
from belvedere.families.runs import by_run

WRAPPER = Wrapper(tiled=by_run(by_ratio), merged="linear_1", normed=True)
