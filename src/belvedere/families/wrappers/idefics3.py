"""Idefics 3 (`Idefics3ForConditionalGeneration`): tiles stacked by prompt, folded and projected by one matrix."""

from belvedere.components import MergerScatter
from belvedere.families.facts import Wrapper, shuffled
from belvedere.families.runs import by_last_tag

WRAPPER = Wrapper(
    text="model.text_model",
    tower="model.vision_model",
    projector="model.connector",
    scatter=MergerScatter,
    tiled=by_last_tag(shuffled("scale_factor")),
    merged="modality_projection.proj",
)
