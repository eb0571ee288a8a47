"""Where a model's patches and image tokens lie in a picture, from its own processor's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from belvedere import geometry
from belvedere.errors import InputError
from belvedere.experiments.runs import Side, encoded

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
        InputError: There is no such picture, or the processor's settings are not known to this function.
    """
    grid = _grid(encoded(model, shown, "shown"), picture)
    rows = model.family.rows
    if rows.order == "windows":
        raise InputError("this tower's patches are in window order, which these boxes do not undo; pass your own")
    if rows.packed:
        fold = model.vision.spatial_merge_size if rows.order == "merge blocks" else 1
        return geometry.packed_patch_boxes(size, grid, fold)
    return geometry.fixed_patch_boxes(_view(model, grid, size), model.vision.patch_size)


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
        ``[image_tokens, 4]`` in the picture's pixels.

    Raises:
        InputError: There is no such picture, its tokens are not its patches, or the processor's settings are not known.
    """
    side = encoded(model, shown, "shown")
    grid = _grid(side, picture)
    if model.family.rows.packed:
        fold = round((side.pictures.patches[picture] / side.pictures.tokens[picture]) ** 0.5)
        return geometry.packed_token_boxes(size, grid, fold)
    if side.pictures.tokens[picture] != side.pictures.patches[picture]:
        raise InputError(
            f"picture {picture} has {side.pictures.tokens[picture]} image tokens and {side.pictures.patches[picture]} "
            "patches, so a token is no patch; pass boxes of your own"
        )
    return geometry.fixed_patch_boxes(_view(model, grid, size), model.vision.patch_size)


def _grid(side: Side, picture: int) -> tuple[int, int, int]:
    if not 0 <= picture < side.pictures.count:
        raise InputError(f"there is no picture {picture}; the input shows {side.pictures.count}")
    if side.pictures.tiles and side.pictures.tiles[picture] > 1:
        raise InputError(
            f"picture {picture} is cut into {side.pictures.tiles[picture]} tiles, and a patch stands in one of them; "
            "pass boxes of your own"
        )
    return side.pictures.grids[picture]


def _view(model: StandardizedTransformer, grid: tuple[int, int, int], size: tuple[int, int]) -> geometry.View:
    """What a tower of one input size sees, by the processor's own resize and crop."""
    _, rows, columns = grid
    seen = (columns * model.vision.patch_size, rows * model.vision.patch_size)
    processor = getattr(model.processor, "image_processor", None)
    shortest = _setting(getattr(processor, "size", None), "shortest_edge")
    if getattr(processor, "do_pad", None):
        raise InputError("the processor pads pictures, which these boxes do not undo; pass boxes of your own")
    if shortest is None or not getattr(processor, "do_center_crop", False):
        return geometry.stretched(size, seen)
    return geometry.cropped(size, shortest, seen)


def _setting(size: Any, name: str) -> int | None:
    """One side of a processor's size, which is a mapping in some releases and a record in others."""
    held = size.get(name) if isinstance(size, Mapping) else getattr(size, name, None)
    return None if held is None else int(held)
