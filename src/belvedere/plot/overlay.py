"""Values laid over the picture that they are about, each in its own box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from belvedere.plot.ground import ground
from belvedere.plot.laid import Box, Laid, Shown, drawn, line_around
from belvedere.plot.sheet import PANEL, WIDEST, Sheet
from belvedere.plot.stacked import Sheaf, sheaves
from belvedere.plot.style import Plot, figure, styled

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["picture", "strips", "words"]

#: Inches for the narrowest cell with a word.
CELL = 0.55


def strips(
    values: Tensor,
    boxes: Tensor,
    image: Image,
    *,
    titles: Sequence[str],
    heading: str,
    unit: str,
    outline: Box | None = None,
    scale: str = "shared",
    name: str = "the picture",
    signed: bool = True,
    least: float | None = None,
) -> Plot:
    """Draw the picture, and one panel per row of values over it; a thumbnail's boxes get panels of their own.

    Args:
        values: ``[panels, n]``.
        boxes: ``[n, 4]`` in the picture's pixels: ``(left, top, right, bottom)``.
        image: The picture, in its own size.
        titles: What each panel is.
        heading: What the values are.
        unit: What the colours mean.
        outline: A box to draw a line around.
        scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.
        name: What the picture is called.
        signed: Whether values have a sign; else their colours begin at zero.
        least: What a scale never closes in on, for it would show noise; by default 0.01 of signed values.

    Returns:
        The figure.

    Raises:
        ValueError: There is not one box per value, or one title per panel, or no such scale.
    """
    if values.shape != (len(titles), len(boxes)):
        raise ValueError(
            f"values are {list(values.shape)}, with {len(titles)} titles and {len(boxes)} boxes; "
            "they must be [titles, boxes]"
        )
    parts = sheaves(boxes)
    panels = [
        Laid(title=_titled(title, part), values=part.mean(row), boxes=part.boxes)
        for row, title in zip(values, titles, strict=True)
        for part in parts
    ]
    shown = [Shown(image=image, name=name, panels=panels)]
    notes = ["the mean of all that share a box"] if any(part.shared for part in parts) else []
    return drawn(
        shown, heading=heading, unit=unit, notes=notes, outline=outline, scale=scale, signed=signed, least=least
    )


def words(
    texts: Sequence[Sequence[str]],
    values: Tensor,
    boxes: Tensor,
    image: Image,
    *,
    titles: Sequence[str],
    heading: str,
    unit: str,
    outline: Box | None = None,
    scale: str = "shared",
    name: str = "the picture",
) -> Plot:
    """Draw the picture, and one panel per row of words over it, each word in its own box.

    Of several that share a box the surest is shown, and a thumbnail's words get panels of their own.

    Args:
        texts: The words of each panel, one for each box.
        values: ``[panels, n]``, what colours the boxes; never below zero.
        boxes: ``[n, 4]`` in the picture's pixels: ``(left, top, right, bottom)``.
        image: The picture, in its own size.
        titles: What each panel is.
        heading: What the words are.
        unit: What the colours mean.
        outline: A box to draw a line around.
        scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.
        name: What the picture is called.

    Returns:
        The figure.

    Raises:
        ValueError: There is not one word and one value per box, or one title per panel, or no such scale.
    """
    if values.shape != (len(titles), len(boxes)) or [len(row) for row in texts] != [len(boxes)] * len(titles):
        raise ValueError(
            f"values are {list(values.shape)}, with {len(titles)} titles and {len(boxes)} boxes; "
            "there must be a word and a value for each box, and a title for each row of them"
        )
    across = boxes[:, 2] - boxes[:, 0]
    # What is all padding has a box of no width.
    narrowest = float(across[across > 0].min()) if bool((across > 0).any()) else float(image.width)
    wide = min(WIDEST, max(PANEL, CELL * image.width / narrowest))
    panels = []
    for part in sheaves(boxes):
        for written, row, title in zip(texts, values, titles, strict=True):
            chosen = part.strongest(row)
            said = [written[number] for number in chosen]
            panels.append(Laid(title=_titled(title, part), values=row[chosen], boxes=part.boxes, words=said))
    shown = [Shown(image=image, name=name, panels=panels)]
    return drawn(shown, heading=heading, unit=unit, outline=outline, scale=scale, signed=False, wide=wide)


def _titled(title: str, part: Sheaf) -> str:
    return f"{title}, {part.name}" if part.name else title


def picture(image: Image, *, title: str, outline: Box | None = None) -> Plot:
    """Draw a picture in its own colours, with a line around a box.

    Args:
        image: The picture.
        title: What it is.
        outline: The box.

    Returns:
        The figure.
    """
    with styled():
        sheet = Sheet.of([image.size], [1], PANEL, 0.0)
        made = figure(sheet.slot, sheet.talls[0] + 0.4)
        axes = made.add_subplot()
        ground(axes, image, pale=False)
        axes.set_aspect("auto")
        if outline is not None:
            line_around(axes, outline)
        axes.set_title(title)
    return made
