"""Gemma 4 unified (`Gemma4UnifiedForConditionalGeneration`): patches projected without a tower; video and audio too."""

from belvedere.components import ImageAndVideoScatter
from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(
    tower="model.embed_vision",
    projector="model.embed_vision.multimodal_embedder",
    scatter=ImageAndVideoScatter,
    video_token="video_token_id",
)
