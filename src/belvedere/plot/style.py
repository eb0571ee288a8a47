"""The one place that sets colours, type and sizes.

Effects have a sign, so their colours part at zero: orange above, purple below, near white between. The pair is told
apart under every common colour blindness, and each panel says its numbers beside the colours.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "DIVERGING",
    "FAINT",
    "GROUND",
    "INK",
    "MARK",
    "OUTLINE",
    "WAY",
    "Plot",
    "figure",
    "fitted",
    "strength",
    "styled",
]

DIVERGING = "PuOr_r"
#: Drawn twice, dark under light, so that it shows on any ground.
OUTLINE = (("#000000", 2.6), ("#ffffff", 1.2))
#: The two ends of the diverging map: what is outlined, and the way from one to the next.
MARK = "#5e3c99"
WAY = "#b35806"
GROUND = "#ffffff"
INK = "#1a1a1a"
FAINT = "#6b6b6b"
#: Values below this are noise; a scale never closes in on them.
LEAST = 0.01
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


def fitted(values: Tensor) -> CenteredNorm:
    """A scale around zero that just holds the values, and that noise alone does not fill."""
    return CenteredNorm(halfrange=_limit(values))


def strength(values: Tensor) -> Tensor:
    """How far each value is from zero on its own scale, 0 to 1."""
    return values.abs() / _limit(values)


def _limit(values: Tensor) -> float:
    return max(float(values.abs().max()), LEAST)
