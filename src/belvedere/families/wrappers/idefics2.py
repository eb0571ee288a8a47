"""Idefics 2 (`Idefics2ForConditionalGeneration`): a resampler whose latents read each picture's projected patches."""

from belvedere.components import MergerScatter
from belvedere.families.facts import Wrapper, fixed
from belvedere.families.runs import by_run, quartered

WRAPPER = Wrapper(
    text="model.text_model",
    tower="model.vision_model",
    projector="model.connector",
    scatter=MergerScatter,
    # One token stands between tiles, and between pictures that stand side by side.
    tiled=by_run(fixed("perceiver_config.resampler_n_latents"), apart=1),
    alike=quartered,
    resampled=True,
)
