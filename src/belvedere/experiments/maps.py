"""A result with a number for each block and position: what patching, ablation and attribution find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.saved import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

__all__ = ["BEFORE", "Cell", "MapResult", "named"]

#: The block number of what is of no block.
BEFORE = -1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a map.

    Args:
        layer: The block.
        positions: The positions that were changed together.
        index: Which entry of the position axis it is.
        effect: Its effect.
        heads: The heads that were changed together; empty where the value has none.
    """

    layer: int
    positions: tuple[int, ...]
    index: int
    effect: float
    heads: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MapResult(Result):
    """The effect of each cell, a row per block and a column per position, or per head of positions.

    Args:
        effects: ``[layer, position]``.
        layers: The block of each row; -1 for what is of no block, such as the image features.
        positions: The positions that each column changed together.
        value: The standard path of what was changed.
        settings: What else made it: the model, the metric and so on.
        heads: The heads that each column changed together; empty where the value has none.
        names: What each column is called, such as ``"head 3 at 12"`` or ``"image"``; empty where its positions say it.
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
    heads: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] = ()

    def named(self, index: int) -> str:
        """What a column is called.

        Args:
            index: Which entry of the position axis it is.
        """
        return self.names[index] if self.names else named(self.positions[index])

    def of_head(self, head: int) -> Self:
        """The columns that changed one head alone, with a column per position, to lay over a picture.

        Args:
            head: The head.

        Raises:
            InputError: No column is that head's alone.
        """
        kept = [index for index, group in enumerate(self.heads) if group == (head,)]
        if not kept:
            raise InputError(f"no column is of head {head} alone; the heads are {sorted(set(self.heads))}")
        columns = len(self.positions)
        held: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Tensor) and value.shape[1:] == (columns,):
                held[entry.name] = value[:, kept]
            elif entry.name in ("positions", "heads", "names"):
                held[entry.name] = tuple(value[index] for index in kept)
        return replace(self, **held)

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
            heads=self.heads[column] if self.heads else (),
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
            (self._row(cell.layer), f"{cell.effect:.3f}", self.named(cell.index), f"{mean:.3f}")
            for cell, mean in zip(best, means, strict=True)
        ]

    def plot(self) -> Figure:
        """The effects as a map, a row per block and a column per position; `overlay` lays them over the picture."""
        from belvedere import plot

        columns = [self.named(index) for index in range(len(self.positions))]
        rows = [self._row(layer) for layer in self.layers]
        named_so = {"down": "" if BEFORE in self.layers else "block", "across": "head" if self.heads else "position"}
        return plot.heat(self.effects, rows=rows, columns=columns, title=self.value, unit=self.UNIT, **named_so)

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
            boxes: ``[position, 4]`` in its pixels, from `patch_boxes` or `token_boxes`: one for each column, of which
                `of_head` leaves those of one head.
            outline: A box to draw a line around, such as the object that differs.

        Raises:
            ValueError: There is not one box per position.
        """
        from belvedere import plot

        titles = [self._row(layer, "block ") for layer in self.layers]
        return plot.strips(
            self.effects, boxes, picture, titles=titles, heading=self.value, unit=self.UNIT, outline=outline
        )

    def _shown(self, ends: str) -> str:
        """The repr, with what the effects are measured against."""
        layers, columns = self.effects.shape
        best, axis = self.largest(), "head" if self.heads else "position"
        at = self.named(best.index)
        return (
            f"{type(self).__name__}({self.value}: effects [layer {layers}, {axis} {columns}], {ends}, "
            f"largest {best.effect:.3f} at {self._row(best.layer, 'block ')}, "
            f"{at if self.names else f'position {at}'})"
        )

    def _row(self, layer: int, before: str = "") -> str:
        """What a row is called: its block's number, or what it is where it is of no block."""
        return self.value.rpartition(".")[2].replace("_", " ") if layer == BEFORE else f"{before}{layer}"


def named(group: tuple[int, ...]) -> str:
    """How a group of positions is written: its number, or its first and how many more."""
    return str(group[0]) if len(group) == 1 else f"{group[0]} and {len(group) - 1} more"
