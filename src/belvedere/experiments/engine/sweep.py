"""Every cell of a map, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from belvedere.experiments.engine.choice import Cells
    from belvedere.experiments.metrics import Metric
    from belvedere.experiments.pairs import Groups
    from belvedere.experiments.progress import Bar

__all__ = ["Sweep"]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The cells of a map: every group of positions on every block of the site."""

    cells: Cells
    layers: tuple[int, ...]
    groups: Groups
    metric: Metric
    corrupt: float

    def run(self, batch_cells: int, bar: Bar) -> Tensor:
        """The metric of every cell, ``[layer, position]``."""
        raw = torch.full((len(self.layers), len(self.groups)), self.corrupt)
        for row, layer in enumerate(self.layers):
            busy = [number for number, group in enumerate(self.groups) if not self.cells.is_idle(layer, group)]
            bar.advance(len(self.groups) - len(busy))
            for columns in self._batches(layer, busy, batch_cells):
                logits = self.cells.logits(layer, tuple(self.groups[column] for column in columns))
                raw[row, columns] = self.metric(logits).float().cpu()
                bar.advance(len(columns))
        return raw

    def _batches(self, layer: int, busy: list[int], size: int) -> Iterator[list[int]]:
        """Cells that begin near each other are run together."""
        ordered = sorted(busy, key=lambda number: self.cells.cut(layer, self.groups[number]))
        for start in range(0, len(ordered), size):
            yield ordered[start : start + size]
