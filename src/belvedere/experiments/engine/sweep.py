"""Every cell of a map, in batches."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch

from belvedere.experiments.metrics import measured

if TYPE_CHECKING:
    from belvedere.experiments.engine.choice import Cells
    from belvedere.experiments.engine.pace import Pace
    from belvedere.experiments.engine.saved import Scores
    from belvedere.experiments.metrics import Metric
    from belvedere.experiments.pairs import Groups
    from belvedere.experiments.progress import Bar

__all__ = ["Sweep"]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The cells of a map: every group of positions on every block of the site.

    Args:
        cells: How they are run.
        layers: The blocks.
        groups: The positions of each cell.
        metric: What is measured.
        pace: How many cells share a forward.
    """

    cells: Cells
    layers: tuple[int, ...]
    groups: Groups
    metric: Metric
    pace: Pace

    def run(self, scores: Scores, bar: Bar) -> None:
        """Measure every cell that has no score yet."""
        left = scores.raw.isnan().nonzero().tolist()
        bar.advance(scores.raw.numel() - len(left))
        idle = [cell for cell in left if self.cells.is_idle(*self._named(cell))]
        scores.put(idle, torch.full((len(idle),), scores.ends[1]))
        bar.advance(len(idle))
        begun = {(row, column): self.cells.cut(*self._named((row, column))) for row, column in left}
        for row, column in idle:
            del begun[row, column]
        try:
            for waiting in self._queues(begun):
                self._measure(waiting, begun, scores, bar)
        finally:
            scores.write()

    def _queues(self, begun: dict[tuple[int, int], int]) -> list[list[tuple[int, int]]]:
        """The cells that may share a forward, those that begin near each other together."""
        if self.cells.mixes:
            return [sorted(begun, key=lambda cell: (begun[cell], cell[1], cell[0]))]
        return [[cell for cell in sorted(begun) if cell[0] == row] for row in range(len(self.layers))]

    def _measure(
        self, waiting: list[tuple[int, int]], begun: dict[tuple[int, int], int], scores: Scores, bar: Bar
    ) -> None:
        while waiting:
            rows, _ = self.cells.work(self.layers[waiting[0][0]], begun[waiting[0]])
            # Those of later blocks join when the run has come there.
            chosen = sorted(waiting[: self.pace.size(rows, len(waiting))])
            work = sum(prod(self.cells.work(self.layers[row], begun[row, column])) for row, column in chosen)
            try:
                with self.pace.measured(len(chosen), rows, work):
                    scored = measured(self.metric, self.cells.logits([self._named(cell) for cell in chosen]))
            except torch.OutOfMemoryError:
                if not self.pace.halve(len(chosen)):
                    raise
                continue
            scores.put(chosen, scored)
            waiting = waiting[len(chosen) :]
            bar.advance(len(chosen))

    def _named(self, cell: tuple[int, int] | list[int]) -> tuple[int, tuple[int, ...]]:
        """The block and the positions of a cell."""
        return self.layers[cell[0]], self.groups[cell[1]]
