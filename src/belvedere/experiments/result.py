"""What a patching sweep found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from belvedere.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image
    from rich.table import Table

__all__ = ["Cell", "PatchResult"]

#: The key of a file's metadata under which everything but the tensors is kept.
HEADER = "belvedere.patch"
UNIT = "restored: 0 corrupt, 1 clean"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a sweep.

    Args:
        layer: The block.
        positions: The positions that were patched together.
        index: Which entry of the position axis it is.
        effect: What was restored.
    """

    layer: int
    positions: tuple[int, ...]
    index: int
    effect: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PatchResult:
    """The effect of each patch: 0 where the corrupt run stays as it is, 1 where the clean one is restored.

    Args:
        effects: ``[layer, position]``; below 0 or above 1 where a patch overshoots.
        raw: ``[layer, position]``, the metric itself.
        layers: The block of each row.
        positions: The positions that each column patched together.
        clean: The metric of the clean run.
        corrupt: The metric of the corrupt run.
        value: The standard path of what was patched.
        settings: What else made it: the model, the metric, the cells per forward, and how the cells were run.
    """

    axes: ClassVar[tuple[str, str]] = ("layer", "position")

    effects: Tensor
    raw: Tensor
    layers: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...]
    clean: float
    corrupt: float
    value: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def largest(self, layer: int | None = None) -> Cell:
        """The cell that restores the most.

        Args:
            layer: Of this block only; of all by default.
        """
        effects = self.effects if layer is None else self.effects[[self.layers.index(layer)]]
        row, column = divmod(int(effects.argmax()), effects.shape[1])
        return Cell(
            layer=self.layers[row] if layer is None else layer,
            positions=self.positions[column],
            index=column,
            effect=float(effects[row, column]),
        )

    def table(self) -> Table:
        """One line per block: the largest effect, where it is, and the mean over positions."""
        from rich.table import Table

        table = Table(title=f"{self.value}, {UNIT}")
        for name in ("block", "largest", "at", "mean"):
            table.add_column(name, justify="right")
        for cells in self._lines():
            table.add_row(*cells)
        return table

    def plot(self) -> Figure:
        """The effects as a map, a row per block and a column per position; `overlay` lays them over the picture."""
        from belvedere import plot

        columns = [named(group) for group in self.positions]
        return plot.heat(self.effects, rows=self.layers, columns=columns, title=self.value, unit=UNIT)

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
        return plot.strips(self.effects, boxes, picture, titles=titles, heading=self.value, unit=UNIT, outline=outline)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to one file: safetensors, with everything else as JSON in its metadata."""
        from safetensors.torch import save_file

        rest = {
            "layers": self.layers,
            "positions": self.positions,
            "clean": self.clean,
            "corrupt": self.corrupt,
            "value": self.value,
            "settings": dict(self.settings),
        }
        tensors = {"effects": self.effects.contiguous(), "raw": self.raw.contiguous()}
        save_file(tensors, fspath(path), metadata={HEADER: json.dumps(rest)})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> PatchResult:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: There is no such file.
            InputError: The file holds something else.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(fspath(path), framework="pt") as opened:
                header = (opened.metadata() or {}).get(HEADER)
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping
        except SafetensorError as error:
            raise InputError(f"{fspath(path)} is no safetensors file: {error}") from error
        if header is None:
            raise InputError(f"{fspath(path)} holds no patching result; pass a file that `PatchResult.save` wrote")
        rest = json.loads(header)
        groups = tuple(tuple(group) for group in rest.pop("positions"))
        return cls(**tensors, **{**rest, "layers": tuple(rest["layers"]), "positions": groups})

    def __repr__(self) -> str:
        layers, positions = self.effects.shape
        best = self.largest()
        return (
            f"PatchResult({self.value}: effects [layer {layers}, position {positions}], clean {self.clean:.4g}, "
            f"corrupt {self.corrupt:.4g}, largest {best.effect:.3f} at block {best.layer}, "
            f"position {named(best.positions)})"
        )

    def _repr_html_(self) -> str:
        from html import escape

        lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" for cells in self._lines())
        return (
            f"<p><code>{escape(repr(self))}</code></p>"
            f"<table><thead><tr><th>block</th><th>largest</th><th>at</th><th>mean</th></tr></thead>"
            f"<tbody>{lines}</tbody></table>"
        )

    def _lines(self) -> list[tuple[str, str, str, str]]:
        best = [self.largest(layer) for layer in self.layers]
        means = self.effects.mean(1).tolist()
        return [
            (str(cell.layer), f"{cell.effect:.3f}", named(cell.positions), f"{mean:.3f}")
            for cell, mean in zip(best, means, strict=True)
        ]


def named(group: tuple[int, ...]) -> str:
    """How a group of positions is written: its number, or its first and how many more."""
    return str(group[0]) if len(group) == 1 else f"{group[0]} and {len(group) - 1} more"
