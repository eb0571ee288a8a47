"""Qwen3.5 (`Qwen3_5ForConditionalGeneration`): the merger that ends the tower is the projector; takes video."""

from belvedere.components import ImageAndVideoScatter
from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(
    tower="model.visual",
    projector="model.visual.merger",
    scatter=ImageAndVideoScatter,
    video_token="video_token_id",
)
