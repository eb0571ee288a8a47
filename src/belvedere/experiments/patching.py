"""Activation patching: copy one activation of a clean run into a corrupt one, and see what of the answer comes back.

Every cell of the map is a forward of its own, but many fit into one: the corrupt prompt is repeated, and in the i-th
copy the i-th group of positions is overwritten. Rows of the text are counted over ``[batch, seq]``, rows of the tower
over ``[images, patches]``; either way copy ``i`` begins at row ``i * length``, also in a packed tower, which keeps the
patches of all pictures in a single row.

The measure follows "Locating and Editing Factual Associations in GPT" (Meng et al. 2022) and "Towards Best Practices of
Activation Patching" (Zhang and Nanda 2023): 0 is the corrupt run, 1 the clean one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.metrics import Metric, bound
from belvedere.experiments.pairs import Groups, Pair
from belvedere.experiments.progress import Bar
from belvedere.experiments.result import PatchResult
from belvedere.experiments.runs import Side, next_logits, repeated
from belvedere.experiments.sites import Site

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["patch"]


def patch(
    model: StandardizedTransformer,
    clean: Mapping[str, Any],
    corrupt: Mapping[str, Any],
    value: str,
    metric: Metric,
    *,
    layers: Iterable[int] | None = None,
    positions: Iterable[int | Iterable[int]] | None = None,
    batch_cells: int = 32,
    progress: bool | None = None,
) -> PatchResult:
    """Patch a value from the clean run into the corrupt one, at each block and position.

    Args:
        model: The model.
        clean: The input whose answer is to be restored, as `trace` takes it by keyword: an encoding from the processor,
            or ``{"text": prompt, "images": [picture]}``. One prompt.
        corrupt: The input that is patched, with as many tokens and with pictures of the same size.
        value: What is copied, by its standard path without a block number: ``layers.layer_output``,
            ``layers.attention_output``, ``vision.layers.mlp_output``, ...
        metric: What is measured: `logit_difference`, `probability`, or any function of the next token's logits,
            ``[rows, vocab] -> [rows]``.
        layers: The blocks; by default all that have the value.
        positions: The positions, each a number, or several numbers that are patched together. They count tokens of the
            prompt, or rows of the tower over all pictures (as the value has them: a leading CLS is row 0). By default
            the image tokens (every token, where no picture is shown), or the patches.
        batch_cells: How many cells share one forward; fewer take less memory.
        progress: Whether to show a bar; by default where someone is watching, in a terminal or a notebook.

    Returns:
        The effects, ``[layer, position]``: 0 where the patch leaves the corrupt run as it is, 1 where it restores the
        clean one.

    Raises:
        InputError: The inputs cannot be laid side by side, there is no such block, position or value, the metric does
            not give a number per row, or it is the same for both runs.
        Unavailable: The checkpoint does not have the value, with the reason.
    """
    site = Site.find(model, value, layers)
    pair = Pair.align(model, clean, corrupt)
    groups = pair.groups(model, site, positions)
    if batch_cells < 1:
        raise InputError(f"batch_cells is {batch_cells}; at least one cell goes into a forward")
    clean_run = CleanRun.of(model, pair.clean, site, groups)
    metric = bound(metric, clean_run.logits)
    ends = _ends(metric, clean_run.logits, next_logits(model, pair.corrupt))
    sweep = Sweep(model=model, pair=pair, site=site, groups=groups, metric=metric)
    with Bar(value, len(site.hosts) * len(groups), progress) as bar:
        raw = sweep.run(clean_run, batch_cells, bar)
    return PatchResult(
        effects=(raw - ends[1]) / (ends[0] - ends[1]),
        raw=raw,
        layers=tuple(site.hosts),
        positions=groups,
        clean=ends[0],
        corrupt=ends[1],
        value=value,
        settings={"model": _called(model), "metric": _named(metric), "batch_cells": batch_cells},
    )


@dataclass(frozen=True, kw_only=True)
class CleanRun:
    """What a sweep needs of the clean run: the vectors that it will copy, and where the run ended.

    Args:
        held: By block, ``[positions, width]``.
        index: The row of each position in them.
        logits: ``[1, vocab]`` of the next token.
    """

    held: dict[int, Tensor]
    index: dict[int, int]
    logits: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, model: StandardizedTransformer, side: Side, site: Site, groups: Groups) -> CleanRun:
        """Run the clean input once, and keep the positions that some cell will patch."""
        wanted = sorted({number for group in groups for number in group})
        rows = torch.tensor(wanted)
        with model.trace(**side.encoding):
            held = nnsight.save({layer: site.rows(layer, rows) for layer in site.hosts})
            logits = nnsight.save(model.logits[:, side.last].float())
        return cls(held=held, index={number: row for row, number in enumerate(wanted)}, logits=logits)

    def vectors(self, layer: int, positions: list[int]) -> Tensor:
        """The clean vectors of some positions on a block: ``[positions, width]``."""
        return self.held[layer][[self.index[number] for number in positions]]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The cells of a map: every group of positions on every block of the site."""

    model: StandardizedTransformer
    pair: Pair
    site: Site
    groups: Groups
    metric: Metric

    def run(self, clean: CleanRun, batch_cells: int, bar: Bar) -> Tensor:
        """The metric of every cell, ``[layer, position]``, as many cells to a forward as are asked for."""
        scores = []
        for layer in self.site.hosts:
            for start in range(0, len(self.groups), batch_cells):
                cells = self.groups[start : start + batch_cells]
                scores.append(self._scores(clean, layer, cells))
                bar.advance(len(cells))
        return torch.cat(scores).view(len(self.site.hosts), len(self.groups)).float().cpu()

    def _scores(self, clean: CleanRun, layer: int, cells: Groups) -> Tensor:
        """The metric of some cells of one block: ``[cells]``."""
        length = self.pair.length(self.model, self.site)
        rows = torch.tensor([copy * length + number for copy, group in enumerate(cells) for number in group])
        source = clean.vectors(layer, [number for group in cells for number in group])
        encoding = repeated(self.pair.corrupt.encoding, len(cells))
        return self.metric(_patched(self.model, encoding, self.pair.corrupt.last, self.site, layer, rows, source))


@torch.no_grad()
def _patched(
    model: StandardizedTransformer,
    encoding: dict[str, Any],
    last: int,
    site: Site,
    layer: int,
    rows: Tensor,
    source: Tensor,
) -> Tensor:
    """The next-token logits of every copy of the corrupt run, with some rows overwritten: ``[copies, vocab]``."""
    with model.trace(**encoding):
        site.put(layer, rows, source)
        logits: Tensor = nnsight.save(model.logits[:, last].float())
    return logits


def _ends(metric: Metric, clean: Tensor, corrupt: Tensor) -> tuple[float, float]:
    """The metric of the two runs, after a check that it can be told apart."""
    if not callable(metric):
        raise InputError(
            f"{metric!r} is no metric; pass logit_difference(...), probability(...), or a function of logits"
        )
    ends = [_measured(metric, logits) for logits in (clean, corrupt)]
    if ends[0] == ends[1]:
        raise InputError(
            f"{_named(metric)} is {ends[0]:.4g} in the clean run and in the corrupt one, so there is nothing to "
            "restore; choose inputs or tokens that it tells apart"
        )
    return ends[0], ends[1]


def _measured(metric: Metric, logits: Tensor) -> float:
    try:
        score = metric(logits)
    except IndexError as error:
        raise InputError(f"{_named(metric)} does not fit a vocabulary of {logits.shape[-1]}: {error}") from error
    if not isinstance(score, Tensor) or score.shape != (1,) or not bool(torch.isfinite(score)):
        got = tuple(score.shape) if isinstance(score, Tensor) and score.shape != (1,) else score
        raise InputError(f"{_named(metric)} must give a finite number per row, [rows, vocab] -> [rows]; it gave {got}")
    return float(score)


def _named(metric: Metric) -> str:
    return getattr(metric, "__name__", None) or str(metric)


def _called(model: StandardizedTransformer) -> str:
    """What the model was loaded from, or its class."""
    name: Any = getattr(model.config, "name_or_path", "") or getattr(model._module.config, "name_or_path", "")
    return str(name) or type(model._module).__name__
