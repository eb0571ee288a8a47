"""A result with a number for each block and position: what patching, ablation and attribution find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from belvedere.experiments.saved import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

__all__ = ["Cell", "MapResult", "named"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a map.

    Args:
        layer: The block.
        positions: The positions that were changed together.
        index: Which entry of the position axis it is.
        effect: Its effect.
    """

    layer: int
    positions: tuple[int, ...]
    index: int
    effect: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MapResult(Result):
    """The effect of each cell, a row per block and a column per position.

    Args:
        effects: ``[layer, position]``.
        layers: The block of each row.
        positions: The positions that each column changed together.
        value: The standard path of what was changed.
        settings: What else made it: the model, the metric and so on.
    """

    HEADINGS: ClassVar[tuple[str, ...]] = ("block", "largest", "at", "mean")
    #: What an effect means.
    UNIT: ClassVar[str] = "effect"
    axes: ClassVar[tuple[str, str]] = ("layer", "position")

    effects: Tensor
    layers: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...]
    value: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def strength(self) -> Tensor:
        """What the largest cell has most of: ``[layer, position]``."""
        return self.effects

    def largest(self, layer: int | None = None) -> Cell:
        """The cell with the largest effect.

        Args:
            layer: Of this block only; of all by default.
        """
        rows = slice(None) if layer is None else [self.layers.index(layer)]
        effects, strength = self.effects[rows], self.strength()[rows]
        row, column = divmod(int(strength.argmax()), effects.shape[1])
        return Cell(
            layer=self.layers[row] if layer is None else layer,
            positions=self.positions[column],
            index=column,
            effect=float(effects[row, column]),
        )

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"{self.value}, {self.UNIT}"

    def lines(self) -> list[tuple[str, ...]]:
        """One line per block: the largest effect, where it is, and the mean over positions."""
        best = [self.largest(layer) for layer in self.layers]
        means = self.effects.mean(1).tolist()
        return [
            (str(cell.layer), f"{cell.effect:.3f}", named(cell.positions), f"{mean:.3f}")
            for cell, mean in zip(best, means, strict=True)
        ]

    def plot(self) -> Figure:
        """The effects as a map, a row per block and a column per position; `overlay` lays them over the picture."""
        from belvedere import plot

        columns = [named(group) for group in self.positions]
        return plot.heat(self.effects, rows=self.layers, columns=columns, title=self.value, unit=self.UNIT)

    def overlay(
        self,
        picture: Image,
        boxes: Tensor,
        *,
        outline: tuple[float, float, float, float] | None = None,
    ) -> Figure:
        """The effects over the picture, one panel per block, each with a scale of its own.

        Args:
            picture: The picture, before any processing.
            boxes: ``[position, 4]`` in its pixels, from `patch_boxes` or `token_boxes`.
            outline: A box to draw a line around, such as the object that differs.

        Raises:
            ValueError: There is not one box per position.
        """
        from belvedere import plot

        titles = [f"block {layer}" for layer in self.layers]
        return plot.strips(
            self.effects, boxes, picture, titles=titles, heading=self.value, unit=self.UNIT, outline=outline
        )

    def _shown(self, ends: str) -> str:
        """The repr, with what the effects are measured against."""
        layers, positions = self.effects.shape
        best = self.largest()
        return (
            f"{type(self).__name__}({self.value}: effects [layer {layers}, position {positions}], {ends}, "
            f"largest {best.effect:.3f} at block {best.layer}, position {named(best.positions)})"
        )


def named(group: tuple[int, ...]) -> str:
    """How a group of positions is written: its number, or its first and how many more."""
    return str(group[0]) if len(group) == 1 else f"{group[0]} and {len(group) - 1} more"
