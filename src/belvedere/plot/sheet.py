"""How panels over pictures share a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

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
    def of(cls, sizes: Sequence[tuple[int, int]], panels: Sequence[int], wide: float, beside: float) -> Sheet:
        """The sheet for some panels of each picture, which begin a line; a figure never grows without end.

        What is far from square is stretched.
        """
        tall = wide * max(height / width for width, height in sizes)
        if tall > max(LONGEST, wide):
            wide, tall = max(wide * max(LONGEST, wide) / tall, LOWEST), max(LONGEST, wide)
        tall, most = max(tall, LOWEST), max(panels)
        while True:
            slot = max(wide + beside, SLOT)
            few = slot * COLUMNS > WIDEST + 4
            across = min(most, max(1, int(2 * WIDEST // slot) if few else max(COLUMNS, ceil(most**0.5))))
            while (
                across < most and _lines(panels, across) * (tall + GAP[1]) > LIMIT - 2 and (across + 1) * slot < LIMIT
            ):
                across += 1
            down = _lines(panels, across)
            if max(down * (tall + GAP[1]) + 2, across * slot + BAR) <= LIMIT or max(wide, tall) <= LOWEST:
                # No wider than the fullest line, where lines can be as few.
                return cls(-(-most // -(-most // across)), down, wide, tall, slot)
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


def _lines(panels: Sequence[int], across: int) -> int:
    """Lines of panels, where each picture's begin one."""
    return sum(-(-count // across) for count in panels)
