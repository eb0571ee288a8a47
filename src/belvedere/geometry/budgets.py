"""The size that a picture is brought to where pixels or patches are counted, with the rounding of each processor.

Every size is ``(width, height)``.
"""

from __future__ import annotations

import math

from belvedere.errors import InputError

__all__ = ["budgeted", "enlarged", "packed", "pooled", "shrunk", "soft"]

Size = tuple[int, int]


def packed(size: Size, factor: int, least: int, most: int, *, frames: int = 1, temporal: int = 1) -> Size:
    """Both sides become multiples of ``factor``, and the pixels of all frames stay between two numbers. Qwen's.

    Args:
        size: Width and height.
        factor: What both sides become a multiple of: a patch, times a merge.
        least: The fewest pixels.
        most: The most pixels.
        frames: How many frames are counted.
        temporal: Frames are counted in multiples of this.

    Raises:
        InputError: One side is more than 200 times the other.
    """
    if max(size) / min(size) > 200:
        raise InputError(f"the processor takes no picture of {size[0]} x {size[1]}; one side is over 200 of the other")
    rounded = [round(side / factor) * factor for side in size]
    counted = round(frames / temporal) * temporal * rounded[0] * rounded[1]
    return _between(size, (rounded[0], rounded[1]), counted, factor, least, most, frames)


def pooled(size: Size, factor: int, least: int, most: int) -> Size:
    """As `packed`, of one frame and for any aspect ratio: no side is ever rounded to nothing. LFM2-VL's."""
    rounded = [max(factor, round(side / factor) * factor) for side in size]
    return _between(size, (rounded[0], rounded[1]), rounded[0] * rounded[1], factor, least, most, 1)


def _between(size: Size, rounded: Size, counted: int, factor: int, least: int, most: int, frames: int) -> Size:
    width, height = size
    if counted > most:
        beta = math.sqrt((frames * height * width) / most)
        width, height = (max(factor, math.floor(side / beta / factor) * factor) for side in size)
        return width, height
    if counted < least:
        beta = math.sqrt(least / (frames * height * width))
        width, height = (math.ceil(side * beta / factor) * factor for side in size)
        return width, height
    return rounded


def budgeted(size: Size, patch: int, most: int) -> Size:
    """The largest size of about this aspect ratio, in whole patches, of at most so many patches. SigLIP 2's.

    The scale is found by halving, and where it stops is part of the answer.
    """

    def scaled(scale: float) -> Size:
        width, height = (max(patch, math.ceil(side * scale / patch) * patch) for side in size)
        return width, height

    low, high = 1e-5 / 10, 100.0
    while high - low >= 1e-5:
        middle = (low + high) / 2
        width, height = scaled(middle)
        low, high = (middle, high) if (width // patch) * (height // patch) <= most else (low, middle)
    return scaled(low)


def enlarged(size: Size, factor: int) -> Size:
    """A picture with a side below ``factor`` grows until it has none, rounded down. GLM's, ahead of `packed`."""
    if min(size) >= factor:
        return size
    scale = max(factor / size[1], factor / size[0])
    return int(size[0] * scale), int(size[1] * scale)


def soft(size: Size, patch: int, pool: int, most: int) -> Size:
    """As large as fits into so many patches, both sides whole numbers of pooled patches. Gemma 4's.

    Args:
        size: Width and height.
        patch: The side of a patch.
        pool: How many patches a side are pooled.
        most: The most patches.
    """
    width, height = size
    side = pool * patch
    factor = math.sqrt(most * patch**2 / (height * width))
    target = [math.floor(factor * length / side) * side for length in size]
    longest = most // pool**2 * side
    if target[1] == 0:
        target = [min(width // height * side, longest), side]
    elif target[0] == 0:
        target = [side, min(height // width * side, longest)]
    return target[0], target[1]


def shrunk(size: Size, patch: int, most: int, longest: int) -> Size:
    """No larger than so many patches in all and a side, rounded down; never enlarged. Kimi K2.5's.

    Args:
        size: Width and height.
        patch: The side of a patch.
        most: The most patches, counted before anything is resized.
        longest: The most patches of a side.
    """
    width, height = size
    patches = max(1.0, height // patch) * max(1.0, width // patch)
    limit = longest * patch
    scale = min(1.0, math.sqrt(most / patches), limit / height, limit / width)
    return min(max(1, int(width * scale)), limit), min(max(1, int(height * scale)), limit)
