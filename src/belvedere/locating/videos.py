"""The layout of an encoding's videos, whose patches a tower takes in a forward of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from belvedere.errors import InputError
from belvedere.geometry import PatchLayout
from belvedere.locating.layout import locate
from belvedere.pictures import Pictures, count_pictures

__all__ = ["locate_videos"]


def locate_videos(
    vision: Any, encoding: Mapping[str, Any], sizes: Sequence[tuple[int, int]] | None = None
) -> PatchLayout:
    """The layout of an encoding's videos.

    Args:
        vision: The tower's envoy.
        encoding: Model inputs.
        sizes: Width and height of each original video, where they are known.

    Raises:
        InputError: It shows no video.
    """
    if encoding.get("pixel_values_videos") is None:
        raise InputError(
            "the input has no pixel_values_videos: it shows no video, or this wrapper takes a video's frames as "
            "pictures; pass `videos=[...]`, or ask for the layout of its pictures"
        )
    if encoding.get("video_grid_thw") is not None:
        filmed, shown = _by_grid(vision, encoding)
    elif encoding.get("video_position_ids") is not None:
        filmed, shown = _by_places(vision, encoding)
    else:
        filmed, shown = _by_frames(vision, encoding)
    return locate(vision, {**filmed, "input_ids": encoding.get("input_ids")}, shown, sizes, "video")


def _by_grid(vision: Any, encoding: Mapping[str, Any]) -> tuple[dict[str, Any], Pictures]:
    """A packed tower's: all frames of a video in one grid."""
    filmed = {"pixel_values": encoding["pixel_values_videos"], "image_grid_thw": encoding["video_grid_thw"]}
    shown = count_pictures(vision, filmed)
    # Kimi averages a video's frames, so that it has the tokens of one.
    pooled = tuple(tokens // frames for tokens, (frames, _, _) in zip(shown.tokens, shown.grids, strict=True))
    ids, token = encoding.get("input_ids"), vision.root.placeholder("video")
    told = None if ids is None or token is None else int((torch.as_tensor(ids) == token).sum())
    return filmed, replace(shown, tokens=pooled if told == sum(pooled) else shown.tokens)


def _by_places(vision: Any, encoding: Mapping[str, Any]) -> tuple[dict[str, Any], Pictures]:
    """Gemma 4's: a row of the tower for each frame, padded, with the place of each patch."""
    filmed = {"pixel_values": encoding["pixel_values_videos"], "image_position_ids": encoding["video_position_ids"]}
    each = count_pictures(vision, filmed)
    frames = torch.as_tensor(encoding["num_frames_per_video"]).tolist()
    starts = [sum(frames[:number]) for number in range(len(frames))]
    grids = tuple((count, *each.grids[start][1:]) for count, start in zip(frames, starts, strict=True))
    tokens = tuple(sum(each.tokens[start : start + count]) for count, start in zip(frames, starts, strict=True))
    rows = tuple(sum(each.patches[start : start + count]) for count, start in zip(frames, starts, strict=True))
    return filmed, Pictures(patches=rows, tokens=tokens, grids=grids, tiles=tuple(frames))


def _by_frames(vision: Any, encoding: Mapping[str, Any]) -> tuple[dict[str, Any], Pictures]:
    """LLaVA-OneVision's: a row of the tower for each frame, and videos of as many frames."""
    pixels = encoding["pixel_values_videos"]
    videos, frames = pixels.shape[:2]
    rows, columns = (side // vision.patch_size for side in pixels.shape[-2:])
    scaled = vision.root.family.facts.video_scaled(rows, columns)
    shown = Pictures(
        patches=(frames * rows * columns,) * videos,
        tokens=(frames * scaled[0] * scaled[1] + 1,) * videos,
        grids=((frames, rows, columns),) * videos,
        tiles=(frames,) * videos,
    )
    return {"pixel_values": pixels.flatten(0, 1)}, shown
