"""Llama 4 (`Llama4ForConditionalGeneration`): the root's own forward writes the features in, and returns a tuple.

Where its config asks for a dict (the default), the forward of transformers 5.24 reads a field that the text model's
output lacks; where a call asks for a tuple, what captures its outputs converts it twice. So only the config asks.
"""

from belvedere.families.facts import ROOT_SCATTER, Wrapper, by_ratio
from belvedere.families.runs import by_start

WRAPPER = Wrapper(
    text="language_model.model",
    tower="vision_model",
    projector="multi_modal_projector",
    lm_head="language_model.lm_head",
    inner=ROOT_SCATTER,
    tiled=by_start(by_ratio, "boi_token_id"),
    config={"return_dict": False},
    forward={"return_dict": True},
    no_generate="its forward returns a tuple and `generate` of transformers 5.24 reads fields",
)
