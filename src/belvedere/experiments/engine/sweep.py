"""Every cell of a map, in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
        bar.advance(int((~scores.raw.isnan()).sum()))
        try:
            for row, layer in enumerate(self.layers):
                self._row(row, layer, scores, bar)
        finally:
            scores.write()

    def _row(self, row: int, layer: int, scores: Scores, bar: Bar) -> None:
        """The cells of one block; those that begin near each other are run together."""
        left = scores.raw[row].isnan().nonzero().flatten().tolist()
        idle = [column for column in left if self.cells.is_idle(layer, self.groups[column])]
        if idle:
            scores.raw[row, idle] = scores.ends[1]
            bar.advance(len(idle))
        cuts = {column: self.cells.cut(layer, self.groups[column]) for column in set(left) - set(idle)}
        waiting = sorted(cuts, key=lambda column: (cuts[column], column))
        while waiting:
            rows, blocks = self.cells.work(layer, cuts[waiting[0]])
            size = self.pace.size(rows)
            columns, waiting = waiting[:size], waiting[size:]
            with self.pace.measured(len(columns), rows, blocks):
                logits = self.cells.logits(layer, tuple(self.groups[column] for column in columns))
                scores.put(row, columns, self.metric(logits))
            bar.advance(len(columns))
