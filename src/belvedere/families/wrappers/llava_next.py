"""LLaVA-NeXT (`LlavaNextForConditionalGeneration`): tiles of a picture, with a newline row at the end of each line."""

from belvedere.families.facts import Wrapper
from belvedere.families.tiling import anyres

WRAPPER = Wrapper(tiled=anyres)
