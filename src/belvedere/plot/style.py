"""The one place that sets colours, type and sizes.

Effects have a sign, so their colours part at zero: orange above, purple below, near white between. The pair is told
apart under every common colour blindness, and each panel says its numbers beside the colours.
"""

from __future__ import annotations

import textwrap
from io import BytesIO
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

__all__ = [
    "DIVERGING",
    "FAINT",
    "GROUND",
    "INK",
    "LINES",
    "MARK",
    "OUTLINE",
    "WAY",
    "Plot",
    "figure",
    "fitted",
    "halved",
    "strength",
    "styled",
    "wrapped",
]

DIVERGING = "PuOr_r"
#: Drawn twice, dark under light, so that it shows on any ground.
OUTLINE = (("#000000", 2.6), ("#ffffff", 1.2))
#: The two ends of the diverging map: what is outlined, and the way from one to the next.
MARK = "#5e3c99"
WAY = "#b35806"
#: The colour and the marker of each curve: the palette of Okabe and Ito, without its yellow.
LINES = (
    ("#0072b2", "o"),
    ("#d55e00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#56b4e9", "v"),
    ("#e69f00", "X"),
    ("#000000", "P"),
)
GROUND = "#ffffff"
INK = "#1a1a1a"
FAINT = "#6b6b6b"
#: Values below this are noise; a scale never closes in on them.
LEAST = 0.01
#: Inches that a letter of a figure's title takes across, and a line of it down.
TITLE = (0.105, 0.2)
SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10,
    "figure.titlesize": 12,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": GROUND,
    "image.interpolation": "nearest",
}


class Plot(Figure):
    """A figure that a notebook shows by itself, whether or not pyplot was ever imported."""

    def _repr_png_(self) -> bytes:
        held = BytesIO()
        self.savefig(held, format="png", dpi=110)
        return held.getvalue()


def styled() -> Any:
    """The context in which every figure is drawn."""
    return rc_context(SETTINGS)


def figure(width: float, height: float) -> Plot:
    """An empty figure, in inches, that keeps its parts from overlapping."""
    return Plot(figsize=(width, height), layout="constrained")


def wrapped(width: float, *lines: str) -> tuple[str, float]:
    """The lines of a title, broken where the figure ends, and the inches that what was broken takes."""
    across, down = TITLE
    broken = "\n".join(textwrap.fill(line, max(1, int(width / across))) for line in lines)
    return broken, down * (broken.count("\n") + 1 - len(lines))


def fitted(values: Tensor) -> CenteredNorm:
    """A scale around zero that just holds the values, and that noise alone does not fill."""
    return CenteredNorm(halfrange=_limit(values))


def halved(bar: Axes, values: Tensor) -> Axes:
    """A colour bar without the half that values of one sign do not use."""
    limit = _limit(values)
    bar.set_ylim(0 if float(values.min()) >= 0 else -limit, 0 if float(values.max()) < 0 else limit)
    return bar


def strength(values: Tensor, scale: Tensor) -> Tensor:
    """How far each value is from zero on a scale that holds some values, 0 to 1."""
    return values.abs() / _limit(scale)


def _limit(values: Tensor) -> float:
    return max(float(values.abs().max()), LEAST)
