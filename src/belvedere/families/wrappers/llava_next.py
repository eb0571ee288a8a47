"""LLaVA-NeXT (`LlavaNextForConditionalGeneration`): tiles of a picture, with a newline row at the end of each line."""

from belvedere.families.facts import Wrapper
from belvedere.families.tiling import anyres, stitched

WRAPPER = Wrapper(tiled=anyres, lines=stitched)
