"""The size that a picture is brought to: one function for each rule, with the rounding of the processor that has it.

Every size is ``(width, height)``.
"""

from __future__ import annotations

import math

__all__ = [
    "below",
    "ceiled",
    "evened",
    "fitted",
    "floored",
    "multiples",
    "shortest",
    "shortest_and_longest",
    "within",
]

Size = tuple[int, int]


def shortest(size: Size, edge: int) -> Size:
    """The shorter side becomes ``edge``; the other follows, rounded down."""
    long = int(edge * max(size) / min(size))
    return (edge, long) if size[0] <= size[1] else (long, edge)


def shortest_and_longest(size: Size, edge: int, most: int) -> Size:
    """The shorter side becomes ``edge``, or less where the longer one would pass ``most``."""
    width, height = size
    short, long = float(min(size)), float(max(size))
    exact: float = edge
    if long / short * edge > most:
        exact = most * short / long
        edge = round(exact)
    if edge == min(size):
        return size
    return (edge, int(exact * height / width)) if width < height else (int(exact * width / height), edge)


def within(size: Size, most: Size) -> Size:
    """The largest size of this aspect ratio within a rectangle, rounded down."""
    scale = min(most[1] / size[1], most[0] / size[0])
    return int(size[0] * scale), int(size[1] * scale)


def fitted(size: Size, longest: int, least: int) -> Size:
    """The longer side becomes ``longest``, the other follows, rounded; none is below ``least``. DeepSeek-VL's."""
    scale = longest / max(size)
    return max(round(size[0] * scale), least), max(round(size[1] * scale), least)


def below(size: Size, longest: int, least: int = 1) -> Size:
    """A longer side above ``longest`` becomes it, the other follows, rounded down; none is below ``least``."""
    width, height = size
    ratio = width / height
    if width >= height and width > longest:
        width, height = longest, int(longest / ratio)
    elif height > width and height > longest:
        width, height = int(longest * ratio), longest
    return max(width, least), max(height, least)


def ceiled(size: Size, canvas: Size) -> Size:
    """The largest size of this aspect ratio within a canvas, rounded up."""
    across, down = canvas[0] / size[0], canvas[1] / size[1]
    if across < down:
        return canvas[0], min(math.ceil(size[1] * across), canvas[1])
    return min(math.ceil(size[0] * down), canvas[0]), canvas[1]


def floored(size: Size, most: Size) -> Size:
    """The largest size of this aspect ratio within a rectangle, rounded down but never to nothing."""
    across, down = most[0] / size[0], most[1] / size[1]
    if across < down:
        return most[0], min(max(math.floor(size[1] * across), 1), most[1])
    return min(max(math.floor(size[0] * down), 1), most[0]), most[1]


def evened(size: Size, longest: int) -> Size:
    """The longer side becomes ``longest``; the other follows, rounded down, then up to an even number. Idefics 3's."""
    ratio = size[0] / size[1]
    width, height = (longest, int(longest / ratio)) if size[0] >= size[1] else (int(longest * ratio), longest)
    if size[0] >= size[1]:
        height += height % 2
    else:
        width += width % 2
    return max(width, 1), max(height, 1)


def multiples(size: Size, side: int) -> Size:
    """Both sides become whole numbers of tiles: the longer one first, the other after it. Idefics 3's."""
    ratio = size[0] / size[1]
    if size[0] >= size[1]:
        width = math.ceil(size[0] / side) * side
        return width, math.ceil(int(width / ratio) / side) * side
    height = math.ceil(size[1] / side) * side
    return math.ceil(int(height * ratio) / side) * side, height
