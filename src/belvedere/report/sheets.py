"""Where in the pictures a text's attention lands: the cells that it can attend to, laid out in sheets.

A cell is one image token of the prompt or, where the text attends to the tower's rows beside the prompt, one of those.
A sheet is a grid of cells over one picture: the picture itself, or the thumbnail beside its tiles. Cells without a
place of their own (newlines, a resampler's latents) stand in a sheet without a picture, in the order of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, sqrt

import torch
from torch import Tensor

from belvedere.geometry import KINDS, PatchLayout
from belvedere.geometry.cells import Cells, Region
from belvedere.geometry.grids import Arrangement

__all__ = ["Sheet", "count_of", "sheets_of"]

#: What stands in no grid, in words.
OUTSIDE: dict[str, str] = {
    "newline": "newlines",
    "latent": "latents, each made of the whole picture",
    "cls": "CLS",
    "register": "registers",
    "padding": "padding",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Sheet:
    """A grid of cells.

    Args:
        title: What it shows.
        image: The picture's number.
        cells: ``[n]``, the cells by number.
        boxes: ``[n, 4]``, ``(left, top, right, bottom)``: in the original picture's pixels, or in columns and rows
            where it is not laid over the picture.
        over: Whether it is laid over the picture.
        note: Why it is not, or what sets its cells apart; empty otherwise.
    """

    title: str
    image: int
    cells: Tensor
    boxes: Tensor
    over: bool = True
    note: str = ""


def sheets_of(layout: PatchLayout) -> list[Sheet]:
    """The sheets of an input's cells, in the order of the pictures.

    Args:
        layout: The input's layout.
    """
    arrangement = _arrangement(layout)
    if layout.untold is None:
        cells, held = layout.tokens, arrangement.placed
        rest = list(_beside(arrangement.rest, cells))
    else:
        # The grids are the same; what the text attends to lacks some of the tower's rows.
        cells, held = layout.patches, layout.arrangements["patches"].placed
        rest = [_left(arrangement.rest, 0, "rows that show no pixels")] if len(arrangement.rest) else []
    found = [
        _in_grid(region, placed, cells.source_box[own].double(), layout.unsourced)
        for region, placed, own in zip(arrangement.regions, arrangement.placed, held, strict=True)
        if len(placed)
    ]
    return sorted([*found, *rest], key=lambda sheet: sheet.image)


def count_of(layout: PatchLayout) -> int:
    """How many cells an input has."""
    return len(_arrangement(layout))


def _arrangement(layout: PatchLayout) -> Arrangement:
    return layout.arrangements["tokens" if layout.untold is None else "image_features"]


def _in_grid(region: Region, placed: Tensor, boxes: Tensor, unsourced: str | None) -> Sheet:
    grid = f"{region.rows} x {region.columns} places"
    title = f"picture {region.image + 1}{'' if region.part == 'picture' else f', {region.part}'}: {grid}"
    known = not bool(boxes.isnan().any())
    return Sheet(
        title=title,
        image=region.image,
        cells=placed,
        boxes=boxes if known else _squares(len(placed), region.columns),
        over=known,
        note="" if known else f"where these lie in the picture is not known: {unsourced or 'they have no boxes'}",
    )


def _beside(rest: Tensor, cells: Cells) -> Iterator[Sheet]:
    """What stands in no grid, by picture and kind."""
    for image in sorted(set(cells.image[rest].tolist())):
        own = rest[cells.image[rest].eq(image)]
        for kind in dict.fromkeys(cells.kind[own].tolist()):
            yield _left(own[cells.kind[own].eq(kind)], max(image, 0), OUTSIDE.get(KINDS[kind], KINDS[kind]))


def _left(cells: Tensor, image: int, what: str) -> Sheet:
    return Sheet(
        title=f"picture {image + 1}, {what}: {len(cells)}",
        image=image,
        cells=cells,
        boxes=_squares(len(cells), ceil(sqrt(len(cells)))),
        over=False,
        note="in the order of the model; these stand at no place of the picture",
    )


def _squares(count: int, columns: int) -> Tensor:
    """Cells of one row and column each, line by line."""
    number = torch.arange(count)
    down, across = number // columns, number % columns
    return torch.stack([across, down, across + 1, down + 1], dim=-1).double()
