"""Steps that several processors take, as their settings ask."""

from __future__ import annotations

from belvedere.geometry import budgets, resizing
from belvedere.geometry.piece import Piece, whole
from belvedere.geometry.settings import Settings

__all__ = ["bounds", "cropped_centre", "grown", "plain", "resized", "squared"]

Size = tuple[int, int]


def plain(read: Settings, size: Size) -> list[Piece]:
    """Resized, then perhaps cropped: CLIP's, SigLIP's, and every one that writes no work of its own."""
    return [cropped_centre(read, resized(read, whole(size)))]


def resized(read: Settings, piece: Piece) -> Piece:
    """A piece brought to the ``size`` of a processor, whichever way that is given.

    Raises:
        InputError: The size is given in a way that is not known.
    """
    if not read("do_resize"):
        return piece
    shortest, longest = read.side("shortest_edge"), read.side("longest_edge")
    if shortest and longest:
        return piece.resized(resizing.shortest_and_longest(piece.size, shortest, longest))
    if shortest:
        return piece.resized(resizing.shortest(piece.size, shortest))
    high, wide = read.side("max_height"), read.side("max_width")
    if high and wide:
        return piece.resized(resizing.within(piece.size, (wide, high)))
    return piece.resized(read.box())


def cropped_centre(read: Settings, piece: Piece) -> Piece:
    """The middle of a piece where the processor crops; padding around a piece that is smaller.

    Where an odd number of pixels is padded, the backends put the odd one on different sides.
    """
    if not read("do_center_crop"):
        return piece
    kept = read.box("crop_size")
    ahead = 1 if read("backend") == "pil" else 0
    left, top = (
        (have - keep) // 2 if have >= keep else -((keep - have + ahead) // 2)
        for have, keep in zip(piece.size, kept, strict=True)
    )
    return piece.window((left, top), kept)


def squared(piece: Piece) -> Piece:
    """A piece in the middle of a square."""
    side = max(piece.size)
    return piece.centred((side, side))


def bounds(read: Settings) -> tuple[int, int, int]:
    """Of a packed picture: what its sides are multiples of, and the fewest and most pixels."""
    factor = read.number("patch_size") * read.number("merge_size") * int(read("patch_expand_factor", 1))
    least, most = read("min_pixels") or read.edge("shortest_edge"), read("max_pixels") or read.edge("longest_edge")
    return factor, int(least), int(most)


def grown(read: Settings, size: Size, frames: int, most: int | None = None) -> Size:
    """The size of a packed picture or frame of GLM's kind: one that is too small grows first.

    Args:
        read: The settings.
        size: Width and height.
        frames: How many frames share the pixels.
        most: The most pixels, where the settings do not say it.
    """
    factor, least, own = bounds(read)
    temporal = read.number("temporal_patch_size")
    enlarged = budgets.enlarged(size, factor)
    return budgets.packed(enlarged, factor, least, most or own, frames=frames, temporal=temporal)
