"""Panels over pictures: values in the colours of their boxes, and words in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from belvedere.plot.ground import ground, reduced
from belvedere.plot.sheet import GAP, OWN, PANEL, Sheet
from belvedere.plot.style import GROUND, INK, OUTLINE, Plot, Scale, styled

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Box", "Laid", "Shown", "drawn", "line_around", "ranged"]

Box = tuple[float, float, float, float]
#: How much of the picture a cell covers, from one that does nothing to the strongest.
COVER = (0.1, 0.85)
#: The strength from which a cell is too dark for dark writing.
DARK = 0.6
#: Points of a panel's title, where it is no wider than its slot.
TITLED = 9.0
#: A letter's width and a line's height for the type's size, and the points of the largest and the smallest writing.
LETTER, LINE, SIZES = 0.62, 1.15, (9.0, 2.0)
#: What is less is what rounding leaves, and is not told from zero; what is less than the other needs more decimals.
TINY, SMALL = 1e-6, 0.05
SCALES = ("shared", "panel")


@dataclass(frozen=True, kw_only=True)
class Laid:
    """Values over a picture.

    Args:
        title: What they are.
        values: ``[n]``.
        boxes: ``[n, 4]`` in the picture's pixels.
        words: A word for each box; none by default.
        says: What stands below the title; by default from what to what the values are.
    """

    title: str
    values: Tensor
    boxes: Tensor
    words: Sequence[str] = ()
    says: str = ""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A picture, drawn in its own colours, and then with each of its panels over it."""

    image: Image
    name: str
    panels: Sequence[Laid]


def drawn(
    shown: Sequence[Shown],
    *,
    heading: str,
    unit: str,
    notes: Sequence[str] = (),
    outline: Box | None = None,
    scale: str = "shared",
    signed: bool = True,
    least: float | None = None,
    wide: float = PANEL,
) -> Plot:
    """Draw pictures with their panels, each picture from a line of its own on.

    Args:
        shown: The pictures.
        heading: What the values are.
        unit: What the colours mean.
        notes: What else stands above the panels.
        outline: A box to draw a line around.
        scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.
        signed: Whether values have a sign; else their colours begin at zero.
        least: What a scale never closes in on, for it would show noise; by default 0.01 of signed values.
        wide: Inches of a picture.

    Raises:
        ValueError: There is no such scale.
    """
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r} is none; known: {', '.join(SCALES)}")
    panels = [panel for one in shown for panel in one.panels]
    look: Any = {"signed": signed, "least": least}
    shared = Scale.of(torch.cat([panel.values.flatten() for panel in panels]), **look) if scale == "shared" else None
    many = "one scale for all panels" if shared else f"{unit}; each panel has its own scale"
    sizes, counts = [one.image.size for one in shown], [len(one.panels) + 1 for one in shown]
    with styled():
        sheet = Sheet.of(sizes, counts, wide, GAP[0] if shared else OWN)
        made, grid = sheet.figure(heading, *notes, *([many] if len(panels) > 1 else [] if shared else [unit]))
        placed: list[Axes] = []
        for one, first, tall in zip(shown, sheet.starts(), sheet.talls, strict=True):
            small = reduced(one.image, max(sheet.wide, tall))
            for number, panel in enumerate([None, *one.panels]):
                down, across = divmod(number, sheet.across)
                axes = made.add_subplot(grid[first + down, across])
                placed.append(axes)
                ground(axes, small, pale=panel is not None, size=one.image.size)
                _frame(axes, one.name, panel, outline, sheet, tall)
                if panel is not None:
                    inches = sheet.wide / one.image.width, tall / one.image.height
                    _fill(axes, panel, inches, shared or Scale.of(panel.values, **look), own=shared is None)
        if shared:
            shared.bar(made, unit.replace(": ", ":\n"), ax=placed, inches=sheet.height)
    return made


def _frame(axes: Axes, name: str, panel: Laid | None, outline: Box | None, sheet: Sheet, tall: float) -> None:
    """What is around a panel: its shape, an outline, and a title that is no wider than its slot."""
    axes.set_aspect("auto")
    axes.set_box_aspect(tall / sheet.wide)
    if outline is not None:
        line_around(axes, outline)
    title = name if panel is None else f"{panel.title}\n{panel.says or ranged(panel.values)}".lstrip()
    longest = max(len(line) for line in title.splitlines() or [""])
    axes.set_title(title, fontsize=min(TITLED, 72 * sheet.slot / (LETTER * max(longest, 1))), parse_math=False)


def _fill(axes: Axes, panel: Laid, inches: tuple[float, float], colors: Scale, *, own: bool) -> None:
    """One panel's values and words, and a colour bar of its own."""
    _cells(axes, panel.values, panel.boxes, colors)
    if panel.words:
        _write(axes, panel.words, panel.boxes, inches, colors.strength(panel.values))
    if own:
        figure = axes.get_figure(root=True)
        assert figure is not None
        bar = colors.bar(figure, "", cax=axes.inset_axes((1.03, 0, 0.06, 1)))
        bar.tick_params(labelsize=8)


def _write(axes: Axes, texts: Sequence[str], boxes: Tensor, inches: tuple[float, float], strengths: Tensor) -> None:
    """Each word in the middle of its box, as large as fits, light where the box is dark."""
    look: Any = {"ha": "center", "va": "center", "parse_math": False, "clip_on": True, "linespacing": 1.0}
    for word, (left, top, right, bottom), strong in zip(texts, boxes.tolist(), strengths.tolist(), strict=True):
        color, around = (GROUND, INK) if strong > DARK else (INK, GROUND)
        shown, size = _sized(_shown(word), 72 * inches[0] * (right - left), 72 * inches[1] * (bottom - top))
        # A line around the letters keeps them apart from any ground.
        edge = [withStroke(linewidth=size / 6, foreground=around)]
        axes.text((left + right) / 2, (top + bottom) / 2, shown, fontsize=size, color=color, path_effects=edge, **look)


def _sized(word: str, wide: float, tall: float) -> tuple[str, float]:
    """A word, on as many lines as let it be largest, and its size in points."""
    largest, smallest = SIZES
    best, points = word, 0.0
    for lines in range(1, 4):
        length = -(-len(word) // lines)
        size = min(largest, wide / (LETTER * (length + 0.5)), tall / (LINE * lines))
        # A word is broken only where that helps much.
        if size > points * 1.5:
            best = "\n".join(word[start : start + length] for start in range(0, len(word), length))
            points = size
    return best, max(points, smallest)


def _shown(word: str) -> str:
    """A word with what would not show written out."""
    shown = word.strip() or repr(word)[1:-1]
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


def ranged(values: Tensor) -> str:
    """The least and the greatest value: two decimals and no sign on a zero, or as many as show something."""
    ends = float(values.min()), float(values.max())
    small = TINY < max(abs(end) for end in ends) < SMALL
    return " to ".join(f"{end:.2g}" if small else f"{round(end, 2) + 0.0:.2f}" for end in ends)


def _cells(axes: Axes, values: Tensor, boxes: Tensor, scale: Scale) -> None:
    """Boxes in the colours of their values."""
    least, most = COVER
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].view(-1, 4, 2)
    drawn = PolyCollection(list(corners.double().cpu().numpy()), **scale.look, linewidths=0)
    drawn.set_array(values.detach().float().cpu().numpy())
    drawn.set_alpha((least + (most - least) * scale.strength(values)).tolist())
    axes.add_collection(drawn)


def line_around(axes: Axes, box: Box) -> None:
    """A line around a box, that shows on any ground."""
    left, top, right, bottom = box
    for color, width in OUTLINE:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=color, linewidth=width))
