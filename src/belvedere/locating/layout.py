"""An encoding made into a `PatchLayout`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry import Arrangement, Cells, PatchLayout, Region, inverse, tower_rows
from belvedere.locating.shown import order_of, seen
from belvedere.locating.tokens import told
from belvedere.pictures import Pictures

__all__ = ["locate"]


def locate(
    vision: Any,
    encoding: Mapping[str, Any],
    pictures: Pictures,
    sizes: Sequence[tuple[int, int]] | None = None,
    modality: str = "image",
) -> PatchLayout:
    """The layout of an encoding's pictures.

    Args:
        vision: The tower's envoy.
        encoding: Model inputs.
        pictures: How many patches and image tokens each picture has, as `belvedere.pictures.count_pictures` counts.
        sizes: Width and height of each original picture, where they are known.
        modality: Whose placeholders the prompt has for them, ``"image"`` or ``"video"``.

    Raises:
        InputError: The sizes are not those of this encoding's pictures, or the prompt has other image tokens than the
            pictures make.
    """
    if not pictures.count:
        raise InputError("the input shows no picture; pass `images=[...]`, or an encoding with pixel values")
    shown = seen(vision, encoding, pictures, sizes, modality)
    patches, embedded, numbers = tower_rows(shown.pieces, order_of(vision))
    facts = vision.root.family.facts
    # Where nothing is written over the placeholders, no token is of a picture.
    written = pictures if facts.scatter is not None else replace(pictures, tokens=())
    tokens, regions, links, mixed = told(shown, written, numbers, facts.resampled)
    tokens = _boxed(tokens, patches, links, mixed)
    positions, sequence = _positions(vision, encoding, len(tokens), modality)
    grids = tuple(shown.regions)
    arrangements = {
        "patches": Arrangement.of("patches", patches, grids),
        "patch_embeddings": _embedded(vision, shown.pieces, patches, embedded, grids),
        "tokens": Arrangement.of("tokens", tokens, regions),
    }
    if len(positions):
        arrangements["sequence"] = _in_sequence(arrangements["tokens"], positions, sequence)
    untold = None
    if facts.scatter is None:
        untold = (
            f"{vision.root.family.wrapper} writes nothing over its placeholders, its text attends to the patches; "
            "ask for rows, by patches_in and rows_of"
        )
        arrangements["image_features"] = _attended(shown.pieces, patches, grids)
    return PatchLayout(
        patches=patches,
        tokens=tokens,
        arrangements=arrangements,
        positions=positions,
        links=links,
        mixed=mixed,
        sizes=shown.sizes,
        sequence=sequence,
        unsourced=shown.unsourced,
        untold=untold,
    )


def _boxed(tokens: Cells, patches: Cells, links: Tensor, mixed: Tensor) -> Cells:
    """Tokens with the boxes that hold all patches which they are made of."""
    links = links[patches.of_kind("patch")[links[:, 1]]]
    source = _around(len(tokens), links, patches.source_box)
    box = _around(len(tokens), links, patches.box)
    # Resampled tokens take patches of several tiles, each with pixels of its own.
    box[tokens.piece.eq(-1)] = torch.nan
    for piece in sorted(set(tokens.piece[mixed].tolist())):
        own = patches.piece.eq(piece) & patches.of_kind("patch")
        spot = mixed & tokens.piece.eq(piece)
        box[spot], source[spot] = _hull(patches.box[own]), _hull(patches.source_box[own])
    return replace(tokens, box=box, source_box=source)


def _around(count: int, links: Tensor, boxes: Tensor) -> Tensor:
    """``[count, 4]``: for each token the box that holds those of its patches; NaN where it has none."""
    token, held = links[:, 0, None].expand(-1, 2), boxes[links[:, 1]]
    none = torch.full((count, 2), torch.nan, dtype=boxes.dtype)
    low = none.scatter_reduce(0, token, held[:, :2], "amin", include_self=False)
    high = none.scatter_reduce(0, token, held[:, 2:], "amax", include_self=False)
    return torch.cat([low, high], 1)


def _hull(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :2].amin(0), boxes[:, 2:].amax(0)])


def _positions(vision: Any, encoding: Mapping[str, Any], count: int, modality: str) -> tuple[Tensor, tuple[int, int]]:
    """Where the prompt has its image tokens, and the prompt's rows and length."""
    ids, token = encoding.get("input_ids"), vision.root.placeholder(modality)
    if ids is None or token is None or vision.root.scatter is None:
        return torch.empty(0, 2, dtype=torch.long), (0, 0)
    ids = torch.as_tensor(ids).cpu()
    found = ids.eq(token).nonzero()
    if len(found) != count:
        raise InputError(
            f"the prompt has {len(found)} {modality} tokens, and its {modality}s become {count}; "
            "encode both together, and do not truncate inside one"
        )
    return found, (int(ids.shape[0]), int(ids.shape[1]))


def _embedded(
    vision: Any, pieces: list[Any], patches: Cells, embedded: Tensor, grids: tuple[Region, ...]
) -> Arrangement:
    """The order of the patch embedding's rows: no CLS, and none of the windows that are made afterwards."""
    if vision.root.family.rows.order != "windows":
        return Arrangement.of("patch_embeddings", patches.taken(embedded.nonzero().flatten()), grids)
    order = order_of(vision, "merge blocks")
    starts = accumulate((piece.length for piece in pieces), initial=0)
    placed = tuple(
        start + inverse(order(piece.frames, *piece.slots)) for piece, start in zip(pieces, starts, strict=False)
    )
    return Arrangement("patch_embeddings", grids, placed, torch.empty(0, dtype=torch.long))


def _attended(pieces: list[Any], patches: Cells, grids: tuple[Region, ...]) -> Arrangement:
    """The rows that the text attends to: those of every tile, without what pads each to a multiple."""
    starts = list(accumulate((piece.length for piece in pieces), initial=0))
    kept = [
        torch.arange(start, start + len(piece.before) + piece.patches)
        for piece, start in zip(pieces, starts, strict=False)
    ]
    return Arrangement.of("image_features", patches.taken(torch.cat(kept)), grids)


def _in_sequence(tokens: Arrangement, positions: Tensor, sequence: tuple[int, int]) -> Arrangement:
    """The image tokens among all tokens of the prompts."""
    flat = positions[:, 0] * sequence[1] + positions[:, 1]
    placed = tuple(flat[index] for index in tokens.placed)
    outside = torch.ones(sequence[0] * sequence[1], dtype=torch.bool)
    outside[flat[torch.cat(tokens.placed)] if tokens.placed else []] = False
    return Arrangement("sequence", tokens.regions, placed, outside.nonzero().flatten())
