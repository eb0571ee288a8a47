"""Where the patches and image tokens of a picture are, drawn over it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from textwrap import fill
from typing import TYPE_CHECKING, Any

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry import PatchLayout
from belvedere.geometry.cells import Box
from belvedere.plot.ground import ground
from belvedere.plot.placed import Of, Panel, panels
from belvedere.plot.style import FAINT, GROUND, INK, MARK, WAY, Plot, figure, styled

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["layout"]

#: Square inches of a panel, for how many patches, and how much larger one of many more is; how wide a thumbnail's is
#: beside it.
AREA, PATCHES, LARGER = 13.0, 600, 3.0
BESIDE = 0.6
#: Inches that two panels may take side by side, those that a panel's title needs, and the most of a longer side.
WIDEST, SLOT, LONGEST = 11.0, 2.4, 24.0
#: Letters of a title to an inch.
LETTERS = 13
#: The size of numbers in points; where cells are too small for the least, numbers are left out.
SIZES = (5.0, 11.0)
#: Points between patches below which the way from one to the next is a blot.
BLOT = 3.5
#: A digit's width, in parts of the type's size.
DIGIT = 0.64
#: How much of its room a number may fill, across and down; less where numbers are left out.
FULL, SPARSE = (0.75, 0.6), (0.6, 0.5)
CUT_OFF, ADDED = "cut off by the processor", "added by the processor"
NEWLINE = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"


def layout(layout: PatchLayout, image: Image, picture: int = 0, *, of: Of | None = None, frame: int = 0) -> Plot:
    """Draw a picture with its patches and image tokens, each with its number.

    A patch's number is that of its row in the tower, and a line leads from row to row; an image token's is that in
    ``vision.image_features``. What the processor cut off is dark, and what it added around the picture is hatched.

    Args:
        layout: What ``model.layout(prompt, images=[image])`` gave.
        image: The original picture.
        picture: Its number in the layout.
        of: ``"patches"`` for the tower's rows, ``"tokens"`` for the image tokens; both by default, side by side.
        frame: The frame of a video that the picture is.

    Returns:
        The figure.

    Raises:
        InputError: There is no such picture, it is of another size, or where its patches lie is not known.
    """
    shown = _rows(layout, image, picture, of, frame)
    with styled():
        made, places = _spread(shown, image)
        # How large the panels come out decides how large a number may be.
        made.draw_without_rendering()
        for panel, axes in places:
            _lines(axes, panel)
            _numbers(axes, panel)
    return made


def _rows(layout: PatchLayout, image: Image, picture: int, of: Of | None, frame: int) -> list[list[Panel]]:
    """The panels, patches above tokens."""
    if of not in (None, "patches", "tokens"):
        raise InputError(f"of={of!r} is nothing to draw; pass 'patches' or 'tokens'")
    if not -layout.images <= picture < layout.images:
        raise InputError(f"there is no picture {picture}; there are {layout.images}")
    picture %= layout.images
    frames = max(region.frames for region in layout.regions if region.image == picture)
    if not 0 <= frame < frames:
        raise InputError(f"there is no frame {frame}; picture {picture} has {frames}")
    kinds: list[Of] = [of] if of else ["patches", "tokens"] if _has_tokens(layout, picture) else ["patches"]
    made = [panels(layout, picture, kind, frame) for kind in kinds]
    if layout.sizes[picture] != image.size:
        raise InputError(
            f"the image is {' x '.join(map(str, image.size))}, and picture {picture} of this layout "
            f"{' x '.join(map(str, layout.sizes[picture]))}; pass the picture that the layout was made of"
        )
    return made


def _spread(shown: list[list[Panel]], image: Image) -> tuple[Plot, list[tuple[Panel, Axes]]]:
    """A figure with room for each panel: thumbnails at the side, and tokens beside or below."""
    extent = _extent([row[0] for row in shown], image)
    tall = (extent[3] - extent[1]) / (extent[2] - extent[0])
    many = max(len(panel.patches) for row in shown for panel in row)
    width = sqrt(AREA * min(LARGER, max(1.0, many / PATCHES)) / tall)
    width *= min(1.0, LONGEST / max(width, width * tall))
    # A narrow picture is no wider for its title, but its panel is.
    beside = max(map(len, shown)) - 1
    slots = [max(SLOT, width), *[max(SLOT, width * BESIDE)] * beside]
    if not beside and len(shown) * width <= WIDEST:
        shown = [[row[0] for row in shown]]
        slots *= len(shown[0])
    made = figure(sum(slots), (width * tall + 0.7) * len(shown))
    grid = made.add_gridspec(len(shown), len(slots), width_ratios=slots)
    places = []
    for row, line in enumerate(shown):
        for column, panel in enumerate(line):
            axes = made.add_subplot(grid[row, column])
            _frame(axes, panel, image, _extent([panel], image) if beside and column else extent, slots[column])
            places.append((panel, axes))
    return made, places


def _extent(shown: Sequence[Panel], image: Image) -> Box:
    """What panels show: the picture, and what lies around it."""
    around = [(0.0, 0.0, float(image.width), float(image.height)), *(panel.around for panel in shown)]
    lefts, tops, rights, bottoms = zip(*around, strict=True)
    margin = max(_pitch(panel)[0] if panel.newlines else 0 for panel in shown)
    return min(lefts), min(tops), max(rights) + margin, max(bottoms)


def _frame(axes: Axes, panel: Panel, image: Image, extent: Box, width: float) -> None:
    """All that does not depend on how large the panel comes out."""
    ground(axes, image, pale=True)
    axes.set_anchor("N")
    axes.set_xlim(extent[0], extent[2])
    axes.set_ylim(extent[3], extent[1])
    for side in axes.spines.values():
        side.set_visible(False)
    letters = int(LETTERS * width)
    axes.set_title(fill(panel.title, letters))
    axes.set_xlabel("\n".join(fill(note, letters * 7 // 6) for note in panel.notes), fontsize=9)
    within = (0.0, 0.0, float(image.width), float(image.height))
    _area(axes, _around(panel.around, within), fill=False, hatch="////", edgecolor=FAINT, linewidth=0, label=ADDED)
    _area(axes, _around(within, panel.seen), facecolor=INK, alpha=0.6, linewidth=0, label=CUT_OFF)


def _lines(axes: Axes, panel: Panel) -> None:
    """The boxes, and the way from row to row, thinner where they stand close."""
    close = min(_points(axes, panel)) / 25
    if panel.of == "tokens":
        _boxes(axes, panel.patches, FAINT, min(0.4, close))
        boxes = torch.tensor([mark.box for mark in panel.marks], dtype=torch.float64)
        _boxes(axes, boxes, MARK, min(2.0, 2 * close))
    else:
        _boxes(axes, panel.patches, INK, min(0.8, close))
    if panel.of == "patches" and min(_points(axes, panel)) >= BLOT:
        _way(axes, panel, min(1.0, 1.2 * close))


def _around(outer: Sequence[float], inner: Sequence[float]) -> list[Box]:
    """What of one box another leaves free, in four parts at most."""
    left, top, right, bottom = outer
    low, high = min(max(inner[1], top), bottom), max(min(inner[3], bottom), top)
    parts = [
        (left, top, right, low),
        (left, high, right, bottom),
        (left, low, min(max(inner[0], left), right), high),
        (max(min(inner[2], right), left), low, right, high),
    ]
    return [part for part in parts if part[2] - part[0] > 0.5 and part[3] - part[1] > 0.5]


def _area(axes: Axes, parts: list[Box], **look: Any) -> None:
    for left, top, right, bottom in parts:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, **look))


def _boxes(axes: Axes, boxes: Tensor, color: str, width: float) -> None:
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].view(-1, 4, 2).double().numpy()
    axes.add_collection(PolyCollection(list(corners), facecolor="none", edgecolor=color, linewidth=width))


def _way(axes: Axes, panel: Panel, width: float) -> None:
    """The line from each row to the next, left out where that lies far away."""
    centres = (panel.patches[:, :2] + panel.patches[:, 2:]) / 2
    steps = (centres[1:] - centres[:-1]).abs() / (panel.patches[1:, 2:] - panel.patches[1:, :2])
    near = panel.follows[1:] & steps.amax(-1).lt(1.5)
    spots = near.nonzero().flatten()
    lines = torch.stack([centres[spots], centres[spots + 1]], 1).double().numpy()
    axes.add_collection(LineCollection(list(lines), colors=WAY, linewidths=width, alpha=0.8, label="way"))


def _pitch(panel: Panel) -> tuple[float, float]:
    """How far numbers stand apart in the picture's pixels, across and down."""
    left, top, right, bottom = panel.seen
    columns, rows = {mark.column for mark in panel.marks}, {mark.row for mark in panel.marks}
    return (right - left) / len(columns), (bottom - top) / len(rows)


def _points(axes: Axes, panel: Panel) -> tuple[float, float]:
    """The same, in points of the figure."""
    left, right = axes.get_xlim()
    made = axes.get_figure(root=True)
    scale = axes.get_window_extent().width / (right - left) * 72 / made.dpi  # type: ignore[union-attr]
    across, down = _pitch(panel)
    return across * scale, down * scale


def _fitted(axes: Axes, panel: Panel) -> tuple[float, tuple[int, int]]:
    """The size of numbers, and of how many rows and columns one is numbered."""
    across, down = _points(axes, panel)
    width = DIGIT * max(len(mark.label) for mark in panel.marks)
    least, most = SIZES
    size = min(most, FULL[1] * down, FULL[0] * across / width)
    if size >= least:
        return size, (1, 1)
    return least, (ceil(least / (SPARSE[1] * down)), ceil(least * width / (SPARSE[0] * across)))


def _numbers(axes: Axes, panel: Panel) -> None:
    size, (rows, columns) = _fitted(axes, panel)
    # Numbers that stand for many lie over the lines of the others.
    halo = [withStroke(linewidth=size / (5 if rows == columns == 1 else 2), foreground=GROUND)]
    look: dict[str, Any] = {"ha": "center", "va": "center", "path_effects": halo}
    color = MARK if panel.of == "tokens" else INK
    for mark in panel.marks:
        if mark.row % rows == 0 and mark.column % columns == 0:
            left, top, right, bottom = mark.box
            axes.text((left + right) / 2, (top + bottom) / 2, mark.label, color=color, fontsize=size, **look)
    for mark in panel.newlines[::rows]:
        _, top, _, bottom = mark.box
        place = panel.around[2] + _pitch(panel)[0] / 2, (top + bottom) / 2
        axes.text(*place, f"{NEWLINE}{mark.label}", color=FAINT, fontsize=0.8 * size, **look)


def _has_tokens(layout: PatchLayout, picture: int) -> bool:
    return layout.untold is None and len(layout.tokens_of(picture)) > 0
