"""Any value of patches or image tokens, laid over the pictures by a layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry import KINDS, Arrangement, Cells, PatchLayout
from belvedere.plot.laid import Box, Laid, Shown, drawn
from belvedere.plot.placed import OUTSIDE, runs
from belvedere.plot.style import Plot

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["over"]

#: The most panels of a figure: what is more cannot be told apart.
MOST = 200
#: Orders of rows that are the tower's; all others are of image tokens.
TOWER = ("patches", "patch_embeddings", "image_features")


def over(
    values: Tensor,
    layout: PatchLayout,
    images: Image | Sequence[Image],
    *,
    unit: str,
    heading: str = "",
    titles: Sequence[str] | None = None,
    of: str | None = None,
    picture: int | None = None,
    frame: int = 0,
    signed: bool | None = None,
    scale: str = "shared",
    outline: Box | None = None,
    least: float | None = None,
) -> Plot:
    """Draw any value of patches or image tokens over its pictures, each in its own box.

    ``over(patches.norm(dim=-1), model.layout(prompt, images=[image]), image, unit="norm of the stream")``

    The tower's own order is undone, tiles come together, a thumbnail gets a panel of its own, and what stands in no
    box (CLS, padding, newlines) is left out and said so. Of tokens that share a box, as a resampler's do, the mean is
    drawn.

    Args:
        values: ``[rows]``, or ``[panels, rows]`` for a panel each, such as blocks or heads; also
            ``[..., images, rows]`` of a tower with an axis of pictures. Its last axis may be the tower's rows, the
            image tokens, or the positions of the one prompt.
        layout: Where the rows are.
        images: The original pictures, as many as the layout has; or one of them, alone.
        unit: What the colours mean, written along the colour bar.
        heading: What the values are.
        titles: What each panel is; its number by default.
        of: Which of ``layout.arrangements`` the last axis is; told by its length where that leaves no doubt.
        picture: Which picture of the layout the one is.
        frame: The frame of a video.
        signed: Whether colours part at zero, or begin there; by default, whether a value is below it.
        scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.
        outline: A box to draw a line around.
        least: What a scale never closes in on, for it would show noise; by default 0.01 of signed values.

    Raises:
        InputError: The last axis is none that the layout knows, or may be several; the pictures are not the layout's,
            or where patches lie in them is not known; there are too many panels, or no value is finite.
        ValueError: There is not one title per panel, or no such scale.
    """
    pictures = _pictures(layout, images, picture)
    arrangement, rows = _arranged(values, layout, of)
    parts = _shown(rows, _titles(titles, rows), layout, arrangement, pictures, frame)
    return drawn(
        parts,
        heading=heading,
        unit=unit,
        notes=_left_out(layout, arrangement, list(pictures)),
        outline=outline,
        scale=scale,
        signed=bool(rows[rows.isfinite()].lt(0).any()) if signed is None else signed,
        least=least,
    )


def _shown(
    rows: Tensor,
    titles: list[str],
    layout: PatchLayout,
    arrangement: Arrangement,
    pictures: dict[int, Image],
    frame: int,
) -> list[Shown]:
    """The pictures with their panels."""
    shown = []
    for number, image in pictures.items():
        panels = list(_panels(rows, titles, layout, arrangement, number, frame))
        if not panels:
            where = f"picture {number}" + f", frame {frame}" * bool(frame)
            raise InputError(f"nothing of {arrangement.name} has a box in {where}")
        name = "the picture" if layout.images == 1 else f"picture {number}"
        shown.append(Shown(image=image, name=name, panels=panels))
    count = sum(len(one.panels) for one in shown)
    if count > MOST:
        raise InputError(f"{count} panels are more than can be told apart; pass {MOST} at most, or the mean over heads")
    return shown


def _pictures(layout: PatchLayout, images: Image | Sequence[Image], picture: int | None) -> dict[int, Image]:
    """The pictures by their numbers in the layout."""
    if layout.unsourced is not None:
        raise InputError(f"where a patch lies in the original picture is not known: {layout.unsourced}")
    given = list(images) if isinstance(images, Sequence) else [images]
    if picture is not None and not -layout.images <= picture < layout.images:
        raise InputError(f"there is no picture {picture}; there are {layout.images}")
    if picture is None and len(given) == layout.images:
        numbers = list(range(layout.images))
    elif picture is not None and len(given) == 1:
        numbers = [picture % layout.images]
    else:
        raise InputError(
            f"{len(given)} pictures were passed, and the layout has {layout.images}; pass all of them in the order of "
            "the prompt, or one with its number, picture=0, 1, ..."
        )
    for number, image in zip(numbers, given, strict=True):
        if layout.sizes[number] != image.size:
            wide, high = layout.sizes[number]
            raise InputError(
                f"the image is {image.width} x {image.height}, and picture {number} of this layout {wide} x {high}; "
                "pass the picture that the layout was made of, before any resizing"
            )
    return dict(zip(numbers, given, strict=True))


def _arranged(values: Tensor, layout: PatchLayout, of: str | None) -> tuple[Arrangement, Tensor]:
    """Which arrangement the last axis is of, and the values as ``[panels, rows]``."""
    if not isinstance(values, Tensor) or not values.ndim:
        raise InputError("pass a tensor whose last axis is the tower's rows or the image tokens")
    if not values.isfinite().any():
        raise InputError("no value is a finite number, so there is nothing to colour")
    values = values.detach()
    whole = {len(one) for name, one in layout.arrangements.items() if of in (None, name)}
    if values.ndim > 1 and values.shape[-1] not in whole and values.shape[-2] * values.shape[-1] in whole:
        values = values.flatten(-2)
    # By number alone: what a row is does not depend on the values.
    name = layout.to_grid(torch.empty(values.shape[-1]), of=of).of
    return layout.arrangements[name], values.reshape(-1, values.shape[-1]).float().cpu()


def _titles(titles: Sequence[str] | None, rows: Tensor) -> list[str]:
    named = [str(number) for number in range(len(rows))] if titles is None else list(titles)
    if len(named) != len(rows):
        raise ValueError(f"there are {len(named)} titles and {len(rows)} panels; pass one for each")
    return [""] if titles is None and len(rows) == 1 else named


def _panels(
    rows: Tensor, titles: list[str], layout: PatchLayout, arrangement: Arrangement, picture: int, frame: int
) -> Iterator[Laid]:
    """The panels over one picture: of each title the picture's own, then its thumbnail's."""
    parts = list(_parts(layout, arrangement, picture, frame))
    for title, row in zip(titles, rows, strict=True):
        for part, own, at, boxes in parts:
            values = row[at]
            if own is not None:
                values = torch.zeros(len(boxes)).index_add(0, own, values) / torch.bincount(own)
            named = ", ".join(word for word in (title, part if part != "picture" else "") if word)
            yield Laid(title=named, values=values, boxes=boxes)


def _parts(
    layout: PatchLayout, arrangement: Arrangement, picture: int, frame: int
) -> Iterator[tuple[str, Tensor | None, Tensor, Tensor]]:
    """Of each part of a picture: its name, which box each row falls into where they share some, rows, and boxes."""
    cells, at = _cells(layout, arrangement)
    shown = cells.image.eq(picture) & ~cells.source_box.isnan().any(-1)
    grids = layout.regions if arrangement.name in TOWER else layout.token_regions
    for part in ("picture", "thumbnail", "tile"):
        inside = torch.zeros(len(cells), dtype=torch.bool)
        for number, region in enumerate(grids):
            if (region.image, region.part) == (picture, part):
                # Where frames are merged, one frame of tokens stands for all.
                inside |= cells.region.eq(number) & cells.frame.eq(min(frame, region.frames - 1))
        found = (shown & inside).nonzero().flatten()
        if len(found):
            yield part, None, at[found], cells.source_box[found]
    if arrangement.name not in TOWER and bool(layout.mixed.any()):
        found = (shown & layout.mixed).nonzero().flatten()
        boxes, own = torch.unique(cells.source_box[found], dim=0, return_inverse=True)
        if len(found):
            yield "picture", own, at[found], boxes


def _cells(layout: PatchLayout, arrangement: Arrangement) -> tuple[Cells, Tensor]:
    """What the rows of an axis are, and the place of each of them on it."""
    if arrangement.name == "tokens":
        return layout.tokens, torch.arange(len(layout.tokens))
    if arrangement.name == "sequence":
        return layout.tokens, layout.positions[:, 0] * layout.sequence[1] + layout.positions[:, 1]
    cells = layout.patches
    if arrangement.name == "patches":
        return cells, torch.arange(len(cells))
    # The same grids, whose cells stand elsewhere on the axis; what stands in none is left out.
    known = list(zip(layout.arrangements["patches"].placed, arrangement.placed, strict=True))
    rows, at = (torch.cat(each) for each in zip(*known, strict=True))
    return cells.taken(rows), at


def _left_out(layout: PatchLayout, arrangement: Arrangement, pictures: list[int]) -> list[str]:
    """The rows that stand in no box, by kind."""
    cells, at = _cells(layout, arrangement)
    found = []
    for kind, name in OUTSIDE.items():
        bare = cells.kind.eq(KINDS.index(kind)) & cells.source_box.isnan().any(-1)
        own = at[bare & (torch.isin(cells.image, torch.tensor([*pictures, -1])))].tolist()
        found += [f"{name} {runs(own, most=4)}"] if own else []
    what = "row" if arrangement.name in TOWER else "position" if arrangement.name == "sequence" else "token"
    return [f"not in the picture, by {what}: {'; '.join(found)}"] if found else []
