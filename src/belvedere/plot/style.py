"""The one place that sets colours, type and sizes.

Effects have a sign, so their colours part at zero: orange above, purple below, near white between. The pair is told
apart under every common colour blindness, and each panel says its numbers beside the colours. What has no sign, such as
a probability, has the orange half alone.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

__all__ = [
    "DIVERGING",
    "FAINT",
    "GROUND",
    "INK",
    "LEAST",
    "LINES",
    "MARK",
    "OUTLINE",
    "SEQUENTIAL",
    "WAY",
    "Plot",
    "Scale",
    "figure",
    "styled",
    "wrapped",
]

DIVERGING = "PuOr_r"
#: Probabilities and shares, which are never below zero.
SEQUENTIAL = "Oranges"
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
#: Signed values below this are noise, and others below that; by default a scale never closes in on them.
LEAST, TINY = 0.01, 1e-12
#: Inches that a letter of a label takes.
LETTER = 0.085
#: Inches of a colour bar, at most and across.
LONGEST, WIDTH = 6.0, 0.2
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
    """The lines of a title, broken where the figure ends, and the inches that they take."""
    across, down = TITLE
    parts = [part for line in lines for part in line.splitlines()]
    broken = "\n".join(textwrap.fill(part, max(1, int(width / across)), break_on_hyphens=False) for part in parts)
    return broken, down * (broken.count("\n") + 1)


@dataclass(frozen=True)
class Scale:
    """The colours of some values: about zero where they have a sign, else from zero up.

    Args:
        limit: The value of the strongest colour.
        signed: Whether values have a sign.
        ends: The part of the scale that is used.
    """

    limit: float
    signed: bool
    ends: tuple[float, float]

    @classmethod
    def of(cls, values: Tensor, *, signed: bool, least: float | None = None) -> Scale:
        """A scale that just holds the values; noise, below the least, does not fill it."""
        held = values[values.isfinite()].double()
        low, high = (float(held.min()), float(held.max())) if len(held) else (0.0, 0.0)
        limit = max(abs(low), abs(high), (LEAST if signed else TINY) if least is None else least)
        return cls(limit, signed, (0 if low >= 0 or not signed else -limit, 0 if high < 0 and signed else limit))

    @property
    def look(self) -> dict[str, Any]:
        """What matplotlib calls it."""
        start = -self.limit if self.signed else 0.0
        return {"cmap": DIVERGING if self.signed else SEQUENTIAL, "norm": Normalize(start, self.limit)}

    def strength(self, values: Tensor) -> Tensor:
        """How far each value is from zero, 0 to 1."""
        return (values.abs() / self.limit).clamp(0, 1).nan_to_num()

    def bar(self, figure: Figure, label: str, *, ax: Any = None, cax: Any = None, inches: float = 3.0) -> Axes:
        """Draw its colour bar, without the half that values of one sign do not use."""
        tall = min(inches, LONGEST)
        beside: dict[str, Any] = {}
        if cax is None:
            beside = {"aspect": max(8.0, tall / WIDTH), "shrink": tall / inches, "anchor": (0.0, 1.0)}
        bar = figure.colorbar(ScalarMappable(**self.look), ax=ax, cax=cax, **beside)
        letters = max(12, int(tall / LETTER))
        bar.set_label(
            "\n".join(textwrap.fill(line, letters, break_on_hyphens=False) for line in label.splitlines()),
            parse_math=False,
        )
        bar.ax.set_ylim(*self.ends)
        return bar.ax
