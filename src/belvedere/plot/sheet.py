"""How panels over pictures share a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from matplotlib.gridspec import GridSpec

from belvedere.plot.style import Plot, figure, wrapped

__all__ = ["GAP", "LOWEST", "OWN", "PANEL", "WIDEST", "Sheet"]

#: Panels side by side, and inches of one.
COLUMNS = 4
PANEL = 2.6
#: Inches that a figure takes at most, and those between panels.
LIMIT, GAP = 34.0, (0.3, 0.5)
#: The longest panel in inches, the narrowest slot for one, and the lowest.
LONGEST, SLOT, LOWEST = 6.0, 1.6, 0.5
#: Inches of the colour bar beside all panels, and of one beside each.
BAR, OWN = 1.1, 0.7
#: The most that a panel of words takes.
WIDEST = 11.0


@dataclass(frozen=True)
class Sheet:
    """How panels over pictures are laid out; each picture's begin a line, as tall as the picture is.

    Args:
        across: How many stand side by side.
        lines: Lines of panels, by picture.
        talls: Inches of a panel from top to bottom, by picture.
        wide: Inches of a panel from side to side.
        slot: Inches of a panel with what is beside it.
    """

    across: int
    lines: tuple[int, ...]
    talls: tuple[float, ...]
    wide: float
    slot: float

    @classmethod
    def of(cls, sizes: Sequence[tuple[int, int]], panels: Sequence[int], wide: float, beside: float) -> Sheet:
        """The sheet for some panels of each picture; a figure never grows without end.

        What is far from square is stretched.
        """
        aspects = [height / width for width, height in sizes]
        most = max(panels)
        longest = max(LONGEST, wide)
        wide = min(wide, max(wide * longest / (wide * max(aspects)), LOWEST))
        talls = [min(max(wide * aspect, LOWEST), longest) for aspect in aspects]
        while True:
            slot = max(wide + beside, SLOT)
            few = slot * COLUMNS > WIDEST + 4
            across = min(most, max(1, int(2 * WIDEST // slot) if few else max(COLUMNS, ceil(most**0.5))))
            while across < most and _height(panels, talls, across) > LIMIT - 2 and (across + 1) * slot < LIMIT:
                across += 1
            if (
                max(_height(panels, talls, across) + 2, across * slot + BAR) <= LIMIT
                or max(wide, *talls, LOWEST) <= LOWEST
            ):
                # No wider than the fullest line, where lines can be as few.
                across = -(-most // -(-most // across))
                lines = tuple(-(-count // across) for count in panels)
                return cls(across, lines, tuple(talls), wide, slot)
            wide = max(0.9 * wide, min(wide, LOWEST))
            talls = [max(0.9 * tall, min(tall, LOWEST)) for tall in talls]

    @property
    def width(self) -> float:
        """Inches of the figure."""
        return max(self.across * self.slot + BAR, 4.2)

    @property
    def height(self) -> float:
        """Inches of all panels with what is above them."""
        return sum(count * (tall + GAP[1]) for count, tall in zip(self.lines, self.talls, strict=True))

    def starts(self) -> list[int]:
        """The first line of each picture."""
        return list(accumulate(self.lines, initial=0))[:-1]

    def figure(self, *lines: str) -> tuple[Plot, GridSpec]:
        """The figure, with its heading, and the grid of its panels."""
        head, more = wrapped(self.width, *lines)
        made = figure(self.width, self.height + 0.4 + more)
        made.suptitle(head)
        ratios = [tall for tall, count in zip(self.talls, self.lines, strict=True) for _ in range(count)]
        return made, made.add_gridspec(sum(self.lines), self.across, height_ratios=ratios)


def _height(panels: Sequence[int], talls: Sequence[float], across: int) -> float:
    """Inches of all panels."""
    return sum(-(-count // across) * (tall + GAP[1]) for count, tall in zip(panels, talls, strict=True))
