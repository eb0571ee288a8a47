"""Mllama (`MllamaForConditionalGeneration`): blocks of the text model attend to the picture; nothing is scattered."""

from belvedere.families.facts import Wrapper
from belvedere.families.tiling import one_each

WRAPPER = Wrapper(tower="model.vision_model", scatter=None, tokens=None, tiled=one_each, by_prompt=True)
