"""LLaVA-OneVision (`LlavaOnevisionForConditionalGeneration`): LLaVA-NeXT's tiles for a lone picture, and video."""

from belvedere.components import ImageAndVideoScatter
from belvedere.families.facts import Wrapper
from belvedere.families.tiling import anyres_scaled, halved, stitched_scaled

WRAPPER = Wrapper(
    scatter=ImageAndVideoScatter,
    video_token="video_token_id",
    tiled=anyres_scaled,
    lines=stitched_scaled,
    video_scaled=halved,
)
