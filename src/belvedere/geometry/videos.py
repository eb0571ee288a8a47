"""What video processors make of a frame; of every frame the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from belvedere.errors import InputError
from belvedere.geometry import budgets
from belvedere.geometry.piece import Piece, whole
from belvedere.geometry.settings import Settings
from belvedere.geometry.steps import bounds, grown, plain

__all__ = ["VIDEOS"]

Size = tuple[int, int]


def _qwen2(read: Settings, size: Size) -> list[Piece]:
    """Qwen2-VL's: each frame as if it were a picture, unless frames share a number of tokens."""
    if not read("do_resize"):
        return [whole(size)]
    factor, least, most = bounds(read)
    if read("cap_pixels_per_frame"):
        total = int(read.number("max_video_tokens") * factor * factor * 0.9)
        share = total * read.number("temporal_patch_size") // _frames(read)
        most = max(min(most, share), int(least * 1.05))
    return [whole(size).resized(budgets.packed(size, factor, least, most))]


def _qwen3(read: Settings, size: Size) -> list[Piece]:
    """Qwen3-VL's and GLM's: all frames share the pixels, and one frame may have its own bound."""
    if not read("do_resize"):
        return [whole(size)]
    factor, least, most = bounds(read)
    if read("cap_pixels_per_frame"):
        cap = read.number("max_video_tokens") * factor * factor
        most = max(min(cap, most // _frames(read)), int(least * 1.05)) * _frames(read)
    return [whole(size).resized(grown(read, size, _frames(read), most))]


def _frames(read: Settings) -> int:
    """How many frames a video has: at least one patch's."""
    frames, least = read.number("frames"), int(read("temporal_patch_size", 1))
    if frames < least:
        raise InputError(f"{read.name} takes no video of {frames} frames; pass at least {least}")
    return frames


#: By the class that wrote the work.
VIDEOS: Mapping[str, Callable[[Settings, Size], list[Piece]]] = {
    "BaseVideoProcessor": plain,
    "Glm46VVideoProcessor": _qwen3,
    "Glm4vVideoProcessor": _qwen3,
    "GlmgaVideoProcessor": _qwen3,
    "InternVLVideoProcessor": plain,
    "Qwen2VLVideoProcessor": _qwen2,
    "Qwen3VLVideoProcessor": _qwen3,
}
