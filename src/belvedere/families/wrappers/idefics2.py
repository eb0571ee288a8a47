"""Idefics 2 (`Idefics2ForConditionalGeneration`): a resampler whose latents read each picture's projected patches."""

from belvedere.components import MergerScatter
from belvedere.families.facts import Wrapper, fixed
from belvedere.families.tiling import stacked

WRAPPER = Wrapper(
    text="model.text_model",
    tower="model.vision_model",
    projector="model.connector",
    scatter=MergerScatter,
    tiled=stacked(fixed("perceiver_config.resampler_n_latents")),
)
