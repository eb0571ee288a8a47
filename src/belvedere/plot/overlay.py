"""Values laid over the picture that they are about, each in its own box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from belvedere.plot.ground import ground
from belvedere.plot.style import GROUND, INK, LEAST, OUTLINE, Plot, Scale, figure, styled, wrapped

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["picture", "strips", "words"]

Box = tuple[float, float, float, float]
COLUMNS = 4
PANEL = 2.6
#: Inches that a figure takes at most, and those between panels.
LIMIT, GAP = 34.0, (0.3, 0.5)
#: The longest panel in inches, the narrowest slot for one, and the lowest.
LONGEST, SLOT, LOWEST = 6.0, 1.6, 0.5
#: Inches of the colour bar beside all panels, and of one beside each.
BAR, OWN = 1.1, 0.7
#: How much of the picture a cell covers, from one that does nothing to the strongest.
COVER = (0.1, 0.85)
#: The strength from which a cell is too dark for dark writing.
DARK = 0.6
#: Inches for the narrowest cell with a word, and the most that a panel of words takes.
CELL, WIDEST = 0.55, 11.0
#: A letter's width and a line's height for the type's size, and the points of the largest and the smallest writing.
LETTER, LINE, SIZES = 0.62, 1.15, (9.0, 2.0)
#: What is less is what rounding leaves, and is not told from zero; what is less than the other needs more decimals.
TINY, SMALL = 1e-6, 0.05
SCALES = ("shared", "panel")


@dataclass(frozen=True)
class Sheet:
    """How panels over a picture are laid out.

    Args:
        across: How many stand side by side.
        down: How many stand below each other.
        wide: Inches of the picture.
        tall: Inches of the picture.
        slot: Inches of a panel with what is beside it.
    """

    across: int
    down: int
    wide: float
    tall: float
    slot: float

    @classmethod
    def of(cls, image: Image, panels: int, wide: float, beside: float) -> Sheet:
        """The sheet for some panels; what is far from square is stretched, and a figure never grows without end."""
        tall = wide * image.height / image.width
        if tall > max(LONGEST, wide):
            wide, tall = max(wide * max(LONGEST, wide) / tall, LOWEST), max(LONGEST, wide)
        tall = max(tall, LOWEST)
        while True:
            slot = max(wide + beside, SLOT)
            few = slot * COLUMNS > WIDEST + 4
            across = min(panels, max(1, int(2 * WIDEST // slot) if few else max(COLUMNS, ceil(panels**0.5))))
            while (
                across < panels and -(-panels // across) * (tall + GAP[1]) > LIMIT - 2 and (across + 1) * slot < LIMIT
            ):
                across += 1
            down = -(-panels // across)
            if max(down * (tall + GAP[1]) + 2, across * slot + BAR) <= LIMIT or max(wide, tall) <= LOWEST:
                return cls(-(-panels // down), down, wide, tall, slot)
            wide, tall = max(0.9 * wide, min(wide, LOWEST)), max(0.9 * tall, min(tall, LOWEST))

    @property
    def width(self) -> float:
        """Inches of the figure."""
        return max(self.across * self.slot + BAR, 4.2)

    def figure(self, *lines: str) -> Plot:
        """The figure, with its heading."""
        head, more = wrapped(self.width, *lines)
        made = figure(self.width, self.down * (self.tall + GAP[1]) + 0.4 + more)
        made.suptitle(head)
        return made


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
    least: float = LEAST,
) -> Plot:
    """Draw the picture, and one panel per row of values over it.

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
        least: What a scale of signed values never closes in on, for it would show noise.

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
    with styled():
        sheet = Sheet.of(image, len(titles) + 1, PANEL, OWN if scale == "panel" else GAP[0])
        drawn = _Drawn(sheet, image, boxes, values, heading, unit, outline, scale, name, signed, least)
        for row, title in zip(values, titles, strict=True):
            drawn.panel(row, title)
        return drawn.ended()


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
    narrowest = float((boxes[:, 2] - boxes[:, 0]).min())
    wide = min(WIDEST, max(PANEL, CELL * image.width / narrowest))
    with styled():
        sheet = Sheet.of(image, len(titles) + 1, wide, OWN if scale == "panel" else GAP[0])
        drawn = _Drawn(sheet, image, boxes, values, heading, unit, outline, scale, name, signed=False)
        for written, row, title in zip(texts, values, titles, strict=True):
            axes, colors = drawn.panel(row, title)
            _write(axes, written, boxes, (sheet.wide / image.width, sheet.tall / image.height), colors.strength(row))
        return drawn.ended()


class _Drawn:
    """A figure that is being drawn: the picture in its own colours, and panels over it."""

    def __init__(
        self,
        sheet: Sheet,
        image: Image,
        boxes: Tensor,
        values: Tensor,
        heading: str,
        unit: str,
        outline: Box | None,
        scale: str,
        name: str,
        signed: bool,
        least: float = LEAST,
    ) -> None:
        if scale not in SCALES:
            raise ValueError(f"scale={scale!r} is none; known: {', '.join(SCALES)}")
        self.sheet, self.image, self.boxes, self.outline = sheet, image, boxes, outline
        self.look: Any = {"signed": signed, "least": least}
        self.shared = Scale.of(values, **self.look) if scale == "shared" else None
        self.unit = unit
        many = "one scale for all panels" if self.shared else f"{unit}; each panel has its own scale"
        self.made = sheet.figure(heading, *([many] if len(values) > 1 else [] if self.shared else [unit]))
        self.panels = [self._place(name, pale=False)]

    def panel(self, row: Tensor, title: str) -> tuple[Axes, Scale]:
        """One more panel, whose title says from what to what its values are."""
        colors = self.shared or Scale.of(row, **self.look)
        axes = self._place(f"{title}\n{_range(row)}", pale=True)
        _cells(axes, row, self.boxes, colors)
        self.panels.append(axes)
        if not self.shared:
            bar = colors.bar(self.made, "", cax=axes.inset_axes((1.03, 0, 0.06, 1)))
            bar.tick_params(labelsize=8)
        return axes, colors

    def ended(self) -> Plot:
        """The figure."""
        if self.shared:
            inches = self.sheet.down * (self.sheet.tall + GAP[1])
            self.shared.bar(self.made, self.unit.replace(": ", ":\n"), ax=self.panels, inches=inches)
        return self.made

    def _place(self, title: str, *, pale: bool) -> Axes:
        number = len(self.panels) + 1 if pale else 1
        axes: Axes = self.made.add_subplot(self.sheet.down, self.sheet.across, number)
        ground(axes, self.image, pale=pale)
        axes.set_aspect("auto")
        axes.set_box_aspect(self.sheet.tall / self.sheet.wide)
        if self.outline is not None:
            _line(axes, self.outline)
        axes.set_title(title, fontsize=9, parse_math=False)
        return axes


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
        sheet = Sheet.of(image, 1, PANEL, 0.0)
        made = figure(sheet.slot, sheet.tall + 0.4)
        axes = made.add_subplot()
        ground(axes, image, pale=False)
        axes.set_aspect("auto")
        if outline is not None:
            _line(axes, outline)
        axes.set_title(title)
    return made


def _range(values: Tensor) -> str:
    """The least and the greatest value: two decimals and no sign on a zero, or as many as show something."""
    ends = float(values.min()), float(values.max())
    small = TINY < max(abs(end) for end in ends) < SMALL
    return " to ".join(f"{end:.2g}" if small else f"{round(end, 2) + 0.0:.2f}" for end in ends)


def _cells(axes: Axes, values: Tensor, boxes: Tensor, scale: Scale) -> None:
    """Boxes in the colours of their values."""
    corners = [(left, top, right - left, bottom - top) for left, top, right, bottom in boxes.tolist()]
    cells = [Rectangle((left, top), width, height) for left, top, width, height in corners]
    least, most = COVER
    drawn = PatchCollection(cells, **scale.look, linewidths=0)
    drawn.set_array(values.detach().float().cpu().numpy())
    drawn.set_alpha((least + (most - least) * scale.strength(values)).tolist())
    axes.add_collection(drawn)


def _line(axes: Axes, box: Box) -> None:
    left, top, right, bottom = box
    for color, width in OUTLINE:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=color, linewidth=width))
