"""LLaVA-OneVision (`LlavaOnevisionForConditionalGeneration`): tiles as in LLaVA-NeXT, and video."""

from belvedere.components import ImageAndVideoScatter
from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(scatter=ImageAndVideoScatter, video_token="video_token_id", tokens=None)
