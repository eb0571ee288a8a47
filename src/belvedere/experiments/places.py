"""Where a model's patches and image tokens lie in a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.runs import Side, encoded, layout_of
from belvedere.geometry import PatchLayout

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["patch_boxes", "token_boxes"]


def patch_boxes(
    model: StandardizedTransformer, shown: Mapping[str, Any], size: tuple[int, int], picture: int = 0
) -> Tensor:
    """The box of each of the tower's patches in a picture, in the order in which `patch` sweeps them.

    Args:
        model: The model.
        shown: The input that shows the picture, as `patch` takes it.
        size: Width and height of the picture, before any processing.
        picture: Its number among the input's pictures.

    Returns:
        ``[patches, 4]`` in the picture's pixels: ``(left, top, right, bottom)``.

    Raises:
        InputError: There is no such picture, or the processor's settings are not known.
    """
    layout = _layout(model, shown, size, picture)
    rows = layout.rows_of(picture)
    return layout.patches.source_box[rows[layout.patches.of_kind("patch")[rows]]]


def token_boxes(
    model: StandardizedTransformer, shown: Mapping[str, Any], size: tuple[int, int], picture: int = 0
) -> Tensor:
    """The box of each of the image tokens that stand for a picture, in the order of the prompt.

    Args:
        model: The model.
        shown: The input that shows the picture, as `patch` takes it.
        size: Width and height of the picture, before any processing.
        picture: Its number among the input's pictures.

    Returns:
        ``[image_tokens, 4]`` in the picture's pixels; NaN for a newline.

    Raises:
        InputError: There is no such picture, or the processor's settings are not known.
    """
    layout = _layout(model, shown, size, picture)
    return layout.tokens.source_box[layout.tokens_of(picture)]


def _layout(
    model: StandardizedTransformer, shown: Mapping[str, Any], size: tuple[int, int], picture: int
) -> PatchLayout:
    side: Side = encoded(model, shown, "shown")
    if not 0 <= picture < side.pictures.count:
        raise InputError(f"there is no picture {picture}; the input shows {side.pictures.count}")
    sizes = [
        size if number == picture else own for number, own in enumerate(side.sizes or [size] * side.pictures.count)
    ]
    known = side.sizes and side.sizes[picture]
    if known and tuple(size) != tuple(known):
        raise InputError(
            f"picture {picture} is {known[0]} x {known[1]} pixels, and size={tuple(size)} was passed; pass "
            "(width, height) of the picture itself"
        )
    layout = layout_of(model, side, sizes)
    if layout.unsourced is not None:
        raise InputError(f"where a patch lies in the picture is not known: {layout.unsourced}; pass boxes of your own")
    return layout
