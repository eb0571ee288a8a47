"""Gemma 4 (`Gemma4ForConditionalGeneration`): pooled patches, normed and projected; takes video and audio too."""

from belvedere.components import ImageAndVideoScatter
from belvedere.families.facts import Wrapper, pooled

WRAPPER = Wrapper(
    projector="model.embed_vision", scatter=ImageAndVideoScatter, video_token="video_token_id", tokens=pooled
)
