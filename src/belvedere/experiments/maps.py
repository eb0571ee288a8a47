"""A result with a number for each block and position: what patching, ablation and attribution find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments import pictured
from belvedere.experiments.saved import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

__all__ = ["BEFORE", "Cell", "MapResult", "named"]

#: The block number of what is of no block.
BEFORE = -1
#: How far a box may be from where it should be, in pixels.
NEAR = 1.0

Box = tuple[float, float, float, float]


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
        places: Every position of the columns once, in order.
        boxes: ``[place, 4]`` in the original picture's pixels; NaN where a position shows none, or where that is not
            known.
        images: ``[place]``, the picture's number; -1 for text.
        sizes: Width and height of each of the input's pictures; empty where that is not known.
        prints: What tells each of them from other pictures.
        texts: By place, its token as it is written; empty without a tokenizer, and in the tower.
    """

    HEADINGS: ClassVar[tuple[str, ...]] = ("block", "largest", "at", "mean")
    #: What an effect means.
    UNIT: ClassVar[str] = "effect"
    #: What a figure calls the experiment.
    EXPERIMENT: ClassVar[str] = "effects"
    axes: ClassVar[tuple[str, str]] = ("layer", "position")

    effects: Tensor
    layers: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...]
    value: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    heads: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    boxes: Tensor | None = None
    images: Tensor | None = None
    sizes: tuple[tuple[int, int], ...] = ()
    prints: tuple[tuple[str, ...], ...] = ()
    texts: tuple[str, ...] = ()

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
            if isinstance(value, Tensor) and entry.name != "boxes" and value.shape[1:] == (columns,):
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

        rows = [self._row(layer) for layer in self.layers]
        down = "" if BEFORE in self.layers else "block"
        columns, spans = self._columns()
        heading = pictured.headed(self.EXPERIMENT, self.value, self.settings)
        across = "head" if self.heads else "row of the tower" if self._tower else "position"
        return plot.heat(
            self.effects,
            rows=rows,
            columns=columns,
            spans=spans,
            title=heading,
            unit=self.UNIT,
            down=down,
            across=across,
        )

    def overlay(
        self,
        picture: Image,
        boxes: Tensor | None = None,
        *,
        image: int | None = None,
        layers: Iterable[int] | None = None,
        outline: Box | None = None,
        scale: str = "shared",
    ) -> Figure:
        """The picture, and the effects over it, one panel per block.

        A column that changes several positions together colours the boxes of all of them.

        Args:
            picture: The picture as the model was given it, or where it is; of patching, the corrupt one will do too.
            boxes: ``[column, 4]`` in its pixels, in place of the result's own, of which `of_head` leaves those of one
                head.
            image: Its number among the input's pictures; by default it is recognised.
            layers: Some of the blocks; by default all.
            outline: A box to draw a line around, such as the object that differs.
            scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.

        Raises:
            InputError: It is another picture than the input's, no column lies in it, or a position is in several
                columns.
            ValueError: There is not one box per column.
        """
        from belvedere import plot

        known = self.boxes is not None and not bool(self.boxes.isnan().all())
        if boxes is None and not known:
            raise InputError(
                "this result does not know where its positions lie in the picture, as of text, of an encoding or of an "
                f"older file; pass boxes={'patch' if self._tower else 'token'}_boxes(model, shown, picture.size)"
            )
        asked = pictured.shown_in(
            picture, image, images=self.images, sizes=self.sizes, known=self.prints, resized=boxes is not None
        )
        rows = pictured.checked_layers(layers, self.layers)
        own = self._cells(asked.image) if known else ([], torch.empty(0, 4))
        columns, held = own if boxes is None else self._given(torch.as_tensor(boxes), asked, own)
        if not columns:
            raise InputError(f"no position of this result has a known box in {asked.name}; use `table()` or `plot()`")
        return plot.strips(
            self.effects[rows][:, columns],
            held,
            asked.picture,
            titles=[self._row(self.layers[row], "block ") for row in rows],
            heading=pictured.headed(self.EXPERIMENT, self.value, self.settings),
            unit=self.UNIT,
            outline=pictured.checked_outline(outline),
            scale=scale,
            name=asked.name,
        )

    @property
    def _tower(self) -> bool:
        """Whether the positions count the tower's rows."""
        return self.value.startswith("vision.layers.")

    def _columns(self) -> tuple[list[str], pictured.Spans]:
        """What each column is called, and which neighbours are one picture's."""
        if self.names or self.images is None or any(len(group) != 1 for group in self.positions):
            return [self.named(index) for index in range(len(self.positions))], ()
        order = {place: row for row, place in enumerate(self.places)}
        rows = [order[place] for (place,) in self.positions]
        texts = [self.texts[row] for row in rows] if self.texts else []
        labels = pictured.labels_of([place for (place,) in self.positions], texts)
        return labels, pictured.spans_of(self.images[rows], "patches" if self._tower else "tokens")

    def _cells(self, image: int) -> tuple[list[int], Tensor]:
        """The column of each box that lies in a picture, and the box."""
        assert self.boxes is not None
        assert self.images is not None
        inside = (self.images.eq(image) & ~self.boxes.isnan().any(-1)).nonzero().flatten().tolist()
        rows = {self.places[row]: row for row in inside}
        found = [(place, column) for column, group in enumerate(self.positions) for place in group if place in rows]
        counted = Counter(place for place, _ in found)
        twice = next((place for place, times in counted.items() if times > 1), None)
        if twice is not None:
            way = "choose a head with `of_head`" if self.heads else "use `plot()`, or sweep sets that do not overlap"
            raise InputError(f"position {twice} is in {counted[twice]} columns, and a box has one colour; {way}")
        return [column for _, column in found], self.boxes[[rows[place] for place, _ in found]]

    def _given(self, boxes: Tensor, asked: pictured.Asked, own: tuple[list[int], Tensor]) -> tuple[list[int], Tensor]:
        """The columns of boxes that were passed: all, or those in the picture where there is one for each of them."""
        columns = own[0] if own[0] and len(boxes) == len(own[0]) else list(range(len(self.positions)))
        if boxes.ndim != 2 or boxes.shape != (len(columns), 4):
            raise ValueError(f"boxes are {list(boxes.shape)}, and must be [{len(columns)}, 4], one for each column")
        if own[0] and asked.sized and all(len(group) == 1 for group in self.positions):
            held = torch.full((len(self.positions), 4), torch.nan, dtype=torch.float64)
            held[own[0]] = own[1]
            # Where the picture has no box of a column, none can be right.
            if not bool((((boxes - held[columns]).abs() <= NEAR) | boxes.isnan()).all()):
                raise InputError("the boxes are not those of this result's columns; leave them out, it knows its own")
        known = ~boxes.isnan().any(-1)
        return [column for column, kept in zip(columns, known.tolist(), strict=True) if kept], boxes[known]

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
