"""Kimi K2.5 (`Kimi_K25ForConditionalGeneration`): the placeholders' ids are 0 before they are embedded; takes video."""

from belvedere.components import ImageAndVideoScatter
from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(
    projector="model.mm_projector",
    scatter=ImageAndVideoScatter,
    video_token="video_token_id",
    merged="in_proj",
)
