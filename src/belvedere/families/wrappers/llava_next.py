"""LLaVA-NeXT (`LlavaNextForConditionalGeneration`): tiles of a picture, with a newline row at the end of each line."""

from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(tokens=None)
