"""Ablation: take what a position holds away, and see what of the answer goes with it.

What stands in its place is zero, the mean over other inputs, or what some other input has there. Zero is far from all
that a model ever computes; the mean keeps what is common to all inputs; a resampled vector is one that the model knows
(Chan et al., "Causal Scrubbing", 2022).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import nnsight
import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments import pictured
from belvedere.experiments.columns import Columns, Heads, Positions, columns_of, units_at
from belvedere.experiments.engine import Pace, Scores, Sweep, cells_of, digest, digest_of, memory_of, weights_digest
from belvedere.experiments.maps import MapResult
from belvedere.experiments.metrics import Metric, bound, in_words, measured, metric_name
from belvedere.experiments.numbers import Layers, cells_at_once
from belvedere.experiments.pairs import Pair, image_tokens
from belvedere.experiments.progress import Bar
from belvedere.experiments.runs import Side, encoded, listed
from belvedere.experiments.settled import experiment
from belvedere.experiments.sites import Site
from belvedere.experiments.where import Where, model_name, positions_of, refuse_other_model

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["AblationResult", "StandIn", "ablate", "stand_in"]

KINDS = ("zero", "mean", "resample")
#: How many vectors are kept to draw from.
POOL = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class StandIn:
    """What stands in the place of a value: `ablate` puts it at each position, and so can you, inside a trace.

    ::

        mean = stand_in(model, "layers.mlp_output", by="mean", references=others)
        with model.trace(**shown):
            for layer in (1, 2):
                mean.put(layer, positions)
            logits = model.logits.save()

    Args:
        by: ``"zero"``, ``"mean"`` or ``"resample"``.
        site: The value.
        held: By block, ``[vectors, width]``: the mean alone, or the vectors that are drawn from.
        seed: What the draws follow from.
        model: What the model was loaded from.
    """

    by: str
    site: Site
    held: Mapping[int, Tensor] = field(default_factory=dict)
    seed: int = 0
    model: str = ""

    def vectors(self, layer: int, positions: Sequence[int]) -> Tensor:
        """The vectors for some positions, ``[positions, width]``; a position always draws the same one.

        Raises:
            InputError: The block was not asked for.
        """
        return self._drawn(layer, self._units(positions))

    def must_be_of(self, value: str) -> None:
        """Refuse to stand for another value than it is made of.

        Args:
            value: The standard path of the other one.

        Raises:
            InputError: It is of another.
        """
        if self.site.path != value:
            raise InputError(f"the stand-in is made of {self.site.path} and cannot stand for {value}; make one of that")

    def _drawn(self, layer: int, units: Sequence[int]) -> Tensor:
        """The vectors for some units: of a position's heads each its own, of one drawn position."""
        if layer not in self.held:
            raise InputError(f"nothing was kept of block {layer}; make the stand-in with layers=[{layer}, ...]")
        heads, held = self.site.heads, self.held[layer]
        held = held.view(len(held), heads, -1)
        drawn = [random.Random(f"{self.seed} {unit // heads}").randrange(len(held)) for unit in units]
        return held[drawn, [unit % heads for unit in units]]

    def _units(self, positions: Sequence[int]) -> list[int]:
        """All heads of some positions."""
        return [number * self.site.heads + head for number in positions for head in range(self.site.heads)]

    @property
    def kind(self) -> str:
        """How it is made."""
        return self.by

    def new(self, layer: int, units: Sequence[int], clean: Tensor) -> Tensor:
        """The vectors for some units, ``[units, width]``, in the place of those that a run has there."""
        return torch.zeros_like(clean) if self.by == "zero" else self._drawn(layer, units).to(clean)

    def refuse_missing(self, site: Site) -> None:
        """Refuse blocks that nothing was kept of.

        Raises:
            InputError: There is one among the site's.
        """
        for layer in site.hosts:
            if self.by != "zero":
                self.vectors(layer, ())

    def put(self, layer: int, positions: Sequence[int], copies: Sequence[int] | None = None) -> None:
        """Inside a trace: write it at some positions of a block.

        Args:
            layer: The block.
            positions: The positions; below 0 they count from the end. All heads there are written; of image features
                they count image tokens.
            copies: Where the trace runs several copies of a prompt: the copy of each position, from 0; the last copy
                must be among them.
        """
        heads = self.site.heads
        self.put_units(
            layer, self._units(positions), None if copies is None else [copy for copy in copies for _ in range(heads)]
        )

    def put_units(self, layer: int, units: Sequence[int], copies: Sequence[int] | None = None) -> None:
        """Inside a trace: write it at some units of the site: positions, or heads of positions.

        Args:
            layer: The block.
            units: The units, ``position * heads + head``.
            copies: The copy of each unit, as for `put`.
        """
        rows = torch.tensor(list(units))
        if copies is not None:
            # A padded tower has more rows than patches, so a copy's length is read off the value.
            rows = rows + torch.tensor(list(copies)) * (self.site.count(self.site.read(layer)) // (max(copies) + 1))
        self.site.put(layer, rows, self.new(layer, units, self.site.rows(layer, rows)))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AblationResult(MapResult):
    """The change of the metric that each ablation makes: below 0 where the position held up the answer.

    Args:
        effects: ``[layer, position]``, the metric less that of the untouched run.
        raw: ``[layer, position]``, the metric itself.
        plain: The metric of the untouched run.
        layers: The block of each row.
        positions: The positions that each column ablated together.
        heads: The heads, likewise; empty where the value has none.
        names: What each column is called; empty where its positions say it.
        value: The standard path of what was ablated.
        settings: What else made it.
    """

    KIND: ClassVar[str] = "ablation"
    HEADER: ClassVar[str] = "belvedere.ablation"
    EXPERIMENT: ClassVar[str] = "ablation"
    UNIT: ClassVar[str] = "change of the metric"

    raw: Tensor
    plain: float

    def strength(self) -> Tensor:
        """The size of each change, up or down."""
        return self.effects.abs()

    def __repr__(self) -> str:
        return self._shown(f"by {self.settings.get('by')}, untouched {self.plain:.4g}")


@experiment
def stand_in(
    model: StandardizedTransformer,
    value: str,
    *,
    by: str = "mean",
    references: Iterable[Mapping[str, Any]] = (),
    at: Where | None = None,
    layers: Layers | None = None,
    seed: int = 0,
    progress: bool | None = False,
) -> StandIn:
    """Make what will stand in the place of a value.

    Args:
        model: The model.
        value: The value, by its standard path without a block number, as for `patch`.
        by: ``"zero"``; ``"mean"`` over the references; ``"resample"``, a vector of one of them.
        references: Other inputs, each as `trace` takes it by keyword. They need not be of one length.
        at: The positions of the references that count; by default image tokens (or all, where none are shown) in the
            text, and patches in the tower.
        layers: The blocks; by default all that have the value.
        seed: What draws follow from.
        progress: Whether to show a bar over the references.

    Raises:
        InputError: There is no such kind, or no reference where one is needed, or no such positions.
        Unavailable: The checkpoint does not have the value.
    """
    if by not in KINDS:
        raise InputError(f"by={by!r} is no way to ablate; known: {', '.join(KINDS)}")
    site = Site.find(model, value, layers)
    given, name = listed(references, "references"), model_name(model)
    if by == "zero":
        return StandIn(by=by, site=site, model=name)
    if not given:
        raise InputError(f"by={by!r} takes vectors from other inputs; pass some as `references=[...]`")
    sides = [encoded(model, one, f"reference {number}") for number, one in enumerate(given)]
    sums: dict[int, Tensor] = {}
    pools: dict[int, list[Tensor]] = {layer: [] for layer in site.hosts}
    draw, count = random.Random(seed), 0
    with Bar(f"references of {value}", len(sides), progress) as bar:
        for side in sides:
            rows = positions_of(model, side, _usual(model, side, site) if at is None else at, tower=site.is_tower)
            if by == "resample":
                rows = tuple(sorted(draw.sample(rows, min(len(rows), -(-POOL // len(sides))))))
            for layer, held in _rows(model, side, site, rows).items():
                pools[layer] = [*pools[layer], held] if by == "resample" else []
                sums[layer] = sums.get(layer, torch.zeros(())) + held.double().sum(0)
            count += len(rows)
            bar.advance(1)
    if by == "mean":
        means = {layer: (total / count)[None] for layer, total in sums.items()}
        return StandIn(by=by, site=site, model=name, held=means)
    kept = {layer: torch.cat(pool) for layer, pool in pools.items()}
    return StandIn(by=by, site=site, model=name, held=kept, seed=seed)


@experiment
def ablate(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    value: str,
    metric: Metric,
    *,
    by: str | StandIn = "zero",
    references: Iterable[Mapping[str, Any]] = (),
    at: Where | None = None,
    layers: Layers | None = None,
    positions: Positions | None = None,
    heads: Heads | None = None,
    batch_cells: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
    file: str | PathLike[str] | None = None,
) -> AblationResult:
    """Ablate a value at each block and position, and measure what that changes.

    Args:
        model: The model.
        shown: The input, as `trace` takes it by keyword.
        value: What is ablated, by its standard path without a block number.
        metric: What is measured; `kl_divergence` is from the untouched run.
        by: ``"zero"``, ``"mean"`` or ``"resample"``, or a `StandIn`.
        references: The other inputs that a mean or a resampled vector comes from.
        at: Their positions that count, as for `stand_in`; by default those of the kind that is ablated: image tokens,
            text tokens, or both.
        layers: The blocks; by default all that have the value.
        positions: The positions, as for `patch`.
        heads: The heads, as for `patch`.
        batch_cells: How many cells share one forward; by default as for `patch`.
        seed: What draws follow from.
        progress: Whether to show a bar.
        file: Where to write the scores as they come, as for `patch`.

    Raises:
        InputError: There is no such block, position, value or way, or the file is another sweep's.
        Unavailable: The checkpoint does not have the value.
    """
    metric, batch_cells = in_words(model, metric), cells_at_once(batch_cells)
    site = Site.find(model, value, layers)
    side = encoded(model, shown, "shown")
    columns = columns_of(model, Pair(clean=side, corrupt=side), site, positions, heads)
    if isinstance(by, StandIn):
        refuse_other_model(model, by.model, "stand-in", "make one of this model")
    else:
        at = _like(model, side, site, columns) if at is None else at
        by = stand_in(model, value, by=by, references=references, at=at, layers=layers, seed=seed)
    by.must_be_of(value)
    by = replace(by, site=site)
    by.refuse_missing(site)
    return _swept(model, side, by, columns, metric, batch_cells, progress, file)


def _swept(
    model: StandardizedTransformer,
    side: Side,
    new: StandIn,
    columns: Columns,
    metric: Metric,
    batch_cells: int | None,
    progress: bool | None,
    file: str | PathLike[str] | None,
) -> AblationResult:
    """The result of a sweep."""
    # The weights are loaded where they are not yet, as by a first trace.
    model.dispatch()
    site, pair = new.site, Pair(clean=side, corrupt=side)
    cells, way = cells_of(model, pair, site, columns.units, new)
    metric = bound(metric, cells.ends[1])
    plain = float(measured(metric, cells.ends[1]))
    hosts = tuple(site.hosts)
    made = {"model": model_name(model), "metric": metric_name(metric), "by": new.by}
    drawn = digest_of({str(layer): new.held[layer] for layer in hosts if layer in new.held})
    about = {"ablated": site.path, **made, "layers": hosts, "positions": columns.units, "inputs": digest(pair)}
    about |= {} if file is None else {"weights": weights_digest(model._module)}
    scores = Scores.of({**about, "stand_in": f"{drawn} {new.seed}"}, (plain, plain), file)
    pace = Pace(memory_of(next(model.embed_tokens._module.parameters()).device), batch_cells)
    with Bar(f"ablation of {site.path}", scores.raw.numel(), progress) as bar:
        Sweep(cells=cells, layers=hosts, groups=columns.units, metric=metric, pace=pace).run(scores, bar)
    return AblationResult(
        effects=scores.raw - plain,
        raw=scores.raw,
        plain=plain,
        layers=hosts,
        **pictured.located(model, (side,), columns, tower=site.is_tower),
        value=site.path,
        settings=pictured.made_by(model, metric_name(metric), by=new.by, batch_cells=pace.most, **way),
    )


def _like(model: StandardizedTransformer, side: Side, site: Site, columns: Columns) -> Where:
    """The positions of a reference that are like those that are ablated."""
    tokens = set(image_tokens(model, side).tolist())
    if site.is_tower or site.is_features or not tokens:
        return _usual(model, side, site)
    shown = {number in tokens for group in columns.positions for number in group}
    return "all" if len(shown) > 1 else "image" if True in shown else "text"


def _usual(model: StandardizedTransformer, side: Side, site: Site) -> Where:
    """The positions of a reference that count by default."""
    if site.is_tower:
        return "patches"
    return "image" if len(image_tokens(model, side)) else "all"


@torch.no_grad()
def _rows(model: StandardizedTransformer, side: Side, site: Site, rows: tuple[int, ...]) -> dict[int, Tensor]:
    """What some positions hold on each block, ``[positions, heads * width]``."""
    wanted = torch.tensor([unit for group in units_at(model, side, site, (rows,)) for unit in group])
    with model.trace(**side.encoding):
        held: dict[int, Tensor] = nnsight.save({layer: site.rows(layer, wanted) for layer in site.hosts})
    return {layer: one.view(len(rows), -1) for layer, one in held.items()}
