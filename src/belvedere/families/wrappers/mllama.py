"""Mllama (`MllamaForConditionalGeneration`): blocks of the text model attend to the picture; nothing is scattered."""

from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(tower="model.vision_model", scatter=None, tokens=None, by_prompt=True)
