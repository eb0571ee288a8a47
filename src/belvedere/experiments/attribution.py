"""Attribution patching: what each patch would restore, to first order, for all of them from one backward.

A patch moves an activation from its corrupt value to its clean one; times the metric's gradient there, that is what the
metric would change by if it were linear (Nanda, "Attribution Patching", 2023). Where it is not, ``steps=`` takes the
mean gradient along the way (integrated gradients, Sundararajan et al. 2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

import nnsight
import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments import pictured
from belvedere.experiments.columns import Heads, Positions, columns_of
from belvedere.experiments.engine import DIGITS, Resumed, digest, resumed
from belvedere.experiments.maps import MapResult
from belvedere.experiments.metrics import Metric, bound, in_words, metric_name, told_apart
from belvedere.experiments.numbers import Layers, whole
from belvedere.experiments.pairs import Groups, Pair
from belvedere.experiments.progress import Bar
from belvedere.experiments.result import PatchResult
from belvedere.experiments.runs import Side, next_logits
from belvedere.experiments.settled import experiment
from belvedere.experiments.sites import Site

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["AttributionResult", "attribute"]


@experiment
def attribute(
    model: StandardizedTransformer,
    clean: Mapping[str, Any],
    corrupt: Mapping[str, Any],
    value: str,
    metric: Metric,
    *,
    layers: Layers | None = None,
    positions: Positions | None = None,
    heads: Heads | None = None,
    steps: int | None = None,
    against: PatchResult | None = None,
    progress: bool | None = None,
) -> AttributionResult:
    """Estimate what `patch` would find, at each block and position.

    Args:
        model: The model.
        clean: The input whose answer is to be restored, as for `patch`.
        corrupt: The input that would be patched.
        value: What would be copied, by its standard path without a block number.
        metric: What is measured; it needs a gradient, so no `rank`.
        layers: The blocks; by default all that have the value.
        positions: The positions, as for `patch`.
        heads: The heads, as for `patch`.
        steps: How many points between corrupt and clean the gradient is taken at, while all positions of a block move
            together. They are at the middle of each step, so one step is half way. By default the gradient is taken at
            the corrupt run alone.
        against: What `patch` found, to say how well the estimate agrees.
        progress: Whether to show a bar.

    Returns:
        The estimates, in the measure of `patch`: 0 where nothing is restored, 1 where the clean run is.

    Raises:
        InputError: As for `patch`, or the metric has no gradient, or ``against`` is of other cells.
        Unavailable: The checkpoint does not have the value.
    """
    _check_steps(steps)
    site, metric = Site.find(model, value, layers), in_words(model, metric)
    pair = Pair.align(model, clean, corrupt)
    columns = columns_of(model, pair, site, positions, heads)
    begun, corrupted, way = _begun(model, pair.corrupt, site, steps or 0)
    logits = next_logits(model, pair.clean)
    metric = bound(metric, logits)
    ends = told_apart(metric, logits, corrupted)
    run = Run(model=model, side=pair.corrupt, site=site, metric=metric, begun=begun)
    raw = run.changes(_held(model, pair.clean, site), columns.units, steps, progress)
    made = {"steps": steps, "inputs": digest(pair)[:DIGITS], **(way if steps else {})}
    found = AttributionResult(
        effects=raw / (ends[0] - ends[1]),
        raw=raw,
        layers=tuple(site.hosts),
        **pictured.located(model, (pair.clean, pair.corrupt), columns, tower=site.is_tower),
        clean=ends[0],
        corrupt=ends[1],
        value=value,
        settings=pictured.made_by(model, metric_name(metric), **made),
    )
    return found if against is None else found.compared(against)


def _begun(
    model: StandardizedTransformer, side: Side, site: Site, steps: int
) -> tuple[Resumed | None, Tensor, dict[str, str]]:
    """The corrupt run, taken up at every block for some steps."""
    starts = [layer for layer in site.hosts for _ in range(steps)]
    return resumed(model, side, "vision" if site.is_tower else "text", starts)


def _check_steps(steps: int | None) -> None:
    if steps is not None and whole(steps, "steps")[0] < 1:
        raise InputError(f"steps is {steps}; the gradient is taken at one point at least")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AttributionResult(MapResult):
    """What each patch would restore if the model were linear.

    Args:
        effects: ``[layer, position]``, in the measure of `PatchResult`.
        raw: ``[layer, position]``, the estimated change of the metric.
        layers: The block of each row.
        positions: The positions that each column patches together.
        heads: The heads, likewise; empty where the value has none.
        names: What each column is called; empty where its positions say it.
        clean: The metric of the clean run.
        corrupt: The metric of the corrupt run.
        value: The standard path of what would be patched.
        correlation: Pearson's, with true patching over all cells, where that was asked for.
        settings: What else made it.
    """

    KIND: ClassVar[str] = "attribution"
    HEADER: ClassVar[str] = "belvedere.attribution"
    EXPERIMENT: ClassVar[str] = "attribution"
    UNIT: ClassVar[str] = "restored to first order: 0 corrupt, 1 clean"

    raw: Tensor
    clean: float
    corrupt: float
    correlation: float | None = None

    def correlation_with(self, truth: PatchResult, layer: int | None = None) -> float:
        """Pearson's correlation with what patching really restores; NaN where one of the two is the same everywhere.

        Args:
            truth: What `patch` found for the same value and positions.
            layer: At this block only; by default over all cells.

        Raises:
            InputError: It is no patching result, or of another value, metric or model, or of other inputs or cells.
        """
        _refuse_other_kind(self.settings, truth)
        layers = self.layers if layer is None else (layer,)
        missing = [number for number in layers if number not in truth.layers or number not in self.layers]
        cells = (truth.value, truth.positions, truth.heads)
        if cells != (self.value, self.positions, self.heads) or missing:
            raise InputError(
                f"the patching result is of {truth.value} at {len(truth.positions)} positions and blocks "
                f"{truth.layers}, and this one of {self.value} at {len(self.positions)} and {self.layers}; "
                "patch the same"
            )
        ours = torch.cat([self.effects[self.layers.index(number)] for number in layers]).double()
        theirs = torch.cat([truth.effects[truth.layers.index(number)] for number in layers]).double()
        ours, theirs = ours - ours.mean(), theirs - theirs.mean()
        return float((ours * theirs).sum() / (ours.norm() * theirs.norm()))

    def compared(self, truth: PatchResult) -> AttributionResult:
        """The same, with its correlation with what patching really restores.

        Args:
            truth: What `patch` found for the same value and positions.
        """
        return replace(self, correlation=self.correlation_with(truth))

    def __repr__(self) -> str:
        if self.correlation is None:
            known = ""
        elif isnan(self.correlation):
            known = ", no correlation with patching, as one of the two is the same everywhere"
        else:
            known = f", correlation with patching {self.correlation:.3f}"
        return self._shown(f"clean {self.clean:.4g}, corrupt {self.corrupt:.4g}{known}")


#: What an estimate and the truth must have in common, beside their cells.
IN_COMMON = ("model", "metric", "inputs")


def _refuse_other_kind(settings: Mapping[str, Any], truth: Any) -> None:
    """A truth that is none, or of something else."""
    if not isinstance(truth, PatchResult):
        raise InputError(f"{type(truth).__name__} is no truth of an attribution; pass what `patch` found")
    for name in IN_COMMON:
        ours, theirs = settings.get(name), truth.settings.get(name)
        if None not in (ours, theirs) and ours != theirs:
            raise InputError(f"the patching result has other {name} ({theirs}) than this one ({ours}); patch the same")


@dataclass(frozen=True, kw_only=True)
class Run:
    """The corrupt run, with gradients."""

    model: StandardizedTransformer
    side: Side
    site: Site
    metric: Metric
    begun: Resumed | None = None

    def changes(self, clean: dict[int, Tensor], groups: Groups, steps: int | None, progress: bool | None) -> Tensor:
        """The estimated change of the metric for each block and group of positions, ``[layer, group]``."""
        with Bar(f"attribution of {self.site.path}", len(self.site.hosts) * (steps or 1), progress) as bar:
            estimates = dict(self.estimates(clean, groups, steps, bar))
        return torch.stack([estimates[layer] for layer in self.site.hosts])

    def estimates(
        self, clean: dict[int, Tensor], groups: Groups, steps: int | None, bar: Bar
    ) -> Iterator[tuple[int, Tensor]]:
        """By block, the estimated change of the metric for each group of positions."""
        if steps is None:
            corrupt, gradients = self._at_corrupt()
            bar.advance(len(clean))
        else:
            corrupt = _held(self.model, self.side, self.site)
        rows = sorted({number for group in groups for number in group})
        for layer, target in clean.items():
            way = target.float() - corrupt[layer].float()
            slope = gradients[layer] if steps is None else self._along(layer, corrupt[layer], target, rows, steps, bar)
            each = (slope.float() * way).sum(-1).cpu()
            yield layer, torch.stack([each[list(group)].sum() for group in groups])

    def _at_corrupt(self) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """The value and the metric's gradient at it on every block, ``[positions, width]``, from one backward."""
        with torch.enable_grad():
            with self.model.trace(**self.side.encoding):
                held = nnsight.save({layer: self._fresh(layer) for layer in self.site.hosts})
                logits = nnsight.save(self.model.logits[:, self.side.last].float())
            found = self._gradients(logits, list(held.values()))
        gradients = {layer: self.site.flat(one) for layer, one in zip(held, found, strict=True)}
        return {layer: self.site.flat(one.detach()) for layer, one in held.items()}, gradients

    def _along(self, layer: int, corrupt: Tensor, clean: Tensor, rows: list[int], steps: int, bar: Bar) -> Tensor:
        """The mean gradient between corrupt and clean, at the middle of each step: ``[positions, width]``."""
        total = torch.zeros_like(corrupt, dtype=torch.float32)
        where = torch.tensor(rows, device=corrupt.device)
        for step in range(steps):
            share = (step + 0.5) / steps
            between = corrupt[where] + share * (clean.to(corrupt)[where] - corrupt[where])
            with torch.enable_grad():
                with nullcontext() if self.begun is None else self.begun.at(layer, 1):
                    held, logits = self._moved(layer, where, between)
                (found,) = self._gradients(logits, [held])
            total += self.site.flat(found)
            bar.advance(1)
        return total / steps

    def _moved(self, layer: int, rows: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The value of a block with other vectors at some rows, and the measured logits that follow."""
        with self.model.trace(**self.side.encoding):
            held = nnsight.save(self._fresh(layer, rows, vectors))
            logits = nnsight.save(self.model.logits[:, self.side.last].float())
        return held, logits

    def _fresh(self, layer: int, rows: Tensor | None = None, vectors: Tensor | None = None) -> Tensor:
        """Inside a trace: give a block its value, or one with other vectors at some rows, as a tensor of its own."""
        held = self.site.read(layer)
        fresh = held.clone() if rows is None or vectors is None else self.site.written(held.detach(), rows, vectors)
        if not fresh.requires_grad:
            fresh.requires_grad_()
        setattr(self.site.hosts[layer], self.site.name, fresh)
        return fresh

    def _gradients(self, logits: Tensor, held: list[Tensor]) -> list[Tensor]:
        """The metric's gradient at some tensors; zero at those that nothing reads."""
        score = self.metric(logits).sum()
        if not score.requires_grad:
            _refuse_steps(self.metric, logits)
            return [torch.zeros_like(one) for one in held]
        found = torch.autograd.grad(score, held, allow_unused=True)
        return [
            torch.zeros_like(one) if gradient is None else gradient for one, gradient in zip(held, found, strict=True)
        ]


def _refuse_steps(metric: Metric, logits: Tensor) -> None:
    """A metric with steps and no slope."""
    with torch.enable_grad():
        if not metric(logits.detach().requires_grad_()).requires_grad:
            raise InputError(f"{metric_name(metric)} has no gradient; take a logit or a probability")


@torch.no_grad()
def _held(model: StandardizedTransformer, side: Side, site: Site) -> dict[int, Tensor]:
    """The value on every block of a run: ``[positions, width]``."""
    with model.trace(**side.encoding):
        held: dict[int, Tensor] = nnsight.save({layer: site.flat(site.read(layer)).clone() for layer in site.hosts})
    return held
