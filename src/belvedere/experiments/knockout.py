"""Attention knockout: some positions no longer attend to some others, in a window of blocks.

If the answer changes, information flowed along those edges in those blocks. As a curve over windows this is the form of
"Dissecting Recall of Factual Associations in Auto-Regressive Language Models" (Geva et al. 2023). The scores
under the softmax are masked, and of packed towers the patterns are written, so it needs no eager attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import nnsight
import torch
from torch import Tensor

from belvedere.components.standard import blocks
from belvedere.errors import InputError
from belvedere.experiments import pictured
from belvedere.experiments.engine import SOME, Masked, Resumed, masked, resumed
from belvedere.experiments.metrics import Metric, bound, in_words, measured, metric_name
from belvedere.experiments.numbers import Layers, cells_at_once, whole
from belvedere.experiments.patterns import Patterns, shut, softmax_of, without
from belvedere.experiments.progress import Bar
from belvedere.experiments.runs import Side, encoded, repeated
from belvedere.experiments.saved import Result
from belvedere.experiments.settled import experiment
from belvedere.experiments.where import Where, positions_of, spoken

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belvedere.standardized import StandardizedTransformer

__all__ = ["KnockoutResult", "knockout"]

#: Who attends, and to whom.
Edges = tuple[Where, Where]


@experiment
def knockout(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    edges: Edges | Mapping[str, Edges],
    metric: Metric,
    *,
    stack: str = "text",
    layers: Layers | None = None,
    window: int | None = None,
    heads: int | Iterable[int] | None = None,
    renormalize: bool = True,
    batch_cells: int | None = None,
    progress: bool | None = None,
) -> KnockoutResult:
    """Cut attention edges and measure what that changes.

    Args:
        model: The model.
        shown: The input, as `trace` takes it by keyword.
        edges: ``(queries, keys)``: the positions that no longer attend, and those that they no longer attend to; or
            several such pairs by name, each cut on its own. Positions are named (``"last"``, ``"image"``, ``"text"``,
            ``"all"``; in the tower ``"patches"``, ``"other"``, ``"all"``), numbers, or `Inside` a box.
        metric: What is measured; `kl_divergence` is from the untouched run.
        stack: ``"text"`` or ``"vision"``.
        layers: The blocks in which edges are cut; by default all that have a pattern.
        window: Cut in this many blocks at a time, and slide over the chosen blocks that have a pattern, in order: where
            some are left out, the blocks of a window are no neighbours. By default in all at once.
        heads: Only of these heads; by default of all.
        renormalize: Whether what is left of a row is scaled up, as under a mask; else the cut part is missing.
        batch_cells: How many cuts share one forward; by default as many as keep their patterns small.
        progress: Whether to show a bar.

    Raises:
        InputError: There are no such positions, blocks or heads.
        Unavailable: No block has a pattern, or one that was asked for has none.
    """
    metric, batch_cells = in_words(model, metric), cells_at_once(batch_cells, "cut")
    patterns = Patterns.find(model, stack, layers)
    side = encoded(model, shown, "shown")
    cuts = {name: _cut(model, side, pair, stack, heads) for name, pair in _named(edges).items()}
    windows = _windows(list(patterns.hosts), window)
    return _swept(model, side, patterns, cuts, windows, metric, renormalize, batch_cells, progress)


def _swept(
    model: StandardizedTransformer,
    side: Side,
    patterns: Patterns,
    named: Mapping[str, Cut],
    windows: tuple[tuple[int, ...], ...],
    metric: Metric,
    renormalize: bool,
    batch_cells: int | None,
    progress: bool | None,
) -> KnockoutResult:
    """The result of every cut in every window."""
    cuts, stack = list(named.values()), patterns.stack
    masses, bare, most = _masses(model, side, patterns, cuts)
    spans = [[list(patterns.hosts).index(number) for number in span] for span in windows]
    # What nobody attends to in any of the blocks is not there to be cut.
    every = product(range(len(cuts)), range(len(windows)))
    cells = [(cut, span) for cut, span in every if masses[cut, spans[span]].any()]
    starts, stops = ([windows[span][end] for _, span in cells] for end in (0, -1))
    begun, logits, way = resumed(model, side, stack, starts, [last + 1 for last in stops])
    by_masks = None
    if (
        begun is not None
        and stack == "text"
        and renormalize
        and len(cells) > SOME
        and all(cut.heads is None for cut in cuts)
    ):
        by_masks, way = _by_masks(begun, patterns)
    metric = bound(metric, logits)
    plain = float(measured(metric, logits))

    def run(some: list[tuple[int, int]]) -> Tensor:
        made = [(cuts[cut], windows[span]) for cut, span in some]
        # A row of which nothing is left is zero, and no softmax.
        if by_masks is not None and not any(bare[cut, spans[span]].any() for cut, span in some):
            return _masked(by_masks, made)
        return _logits(model, side, patterns, made, renormalize, begun)

    scores = torch.full((len(cuts), len(windows)), plain)
    batches = _batches(cells, most if batch_cells is None else batch_cells)
    with Bar("knockout", scores.numel(), progress) as bar:
        bar.advance(scores.numel() - len(cells))
        for some in batches:
            scores[tuple(zip(*some, strict=True))] = measured(metric, run(some)).float().cpu()
            bar.advance(len(some))
    return KnockoutResult(
        effects=scores - plain,
        raw=scores,
        mass=torch.stack([masses[:, span].mean(1) for span in spans], 1),
        plain=plain,
        names=tuple(named),
        windows=windows,
        stack=stack,
        skipped=patterns.reasons,
        settings=pictured.made_by(model, metric_name(metric), renormalize=renormalize, **way),
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KnockoutResult(Result):
    """What each cut changes.

    Args:
        effects: ``[edges, window]``, the metric less that of the untouched run.
        raw: ``[edges, window]``, the metric itself.
        mass: ``[edges, window]``, how much of their attention the queries paid to the keys in the untouched run, 0 to
            1; the mean over queries, heads and blocks. Where it is 0 nothing was there to cut.
        plain: The metric of the untouched run.
        names: What each pair of positions is called.
        windows: The blocks of each column.
        stack: ``"text"`` or ``"vision"``.
        skipped: Why some blocks have no pattern to cut, by their numbers.
        settings: What else made it.
    """

    KIND: ClassVar[str] = "knockout"
    HEADER: ClassVar[str] = "belvedere.knockout"
    HEADINGS: ClassVar[tuple[str, ...]] = ("edges", "blocks", "metric", "change", "attention cut")
    axes: ClassVar[tuple[str, str]] = ("edges", "window")

    effects: Tensor
    raw: Tensor
    mass: Tensor
    plain: float
    names: tuple[str, ...]
    windows: tuple[tuple[int, ...], ...]
    stack: str
    skipped: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"{self.settings.get('metric', 'metric')}, untouched {self.plain:.4g}"

    def lines(self) -> list[tuple[str, ...]]:
        """One line per pair and window."""
        return [
            (
                name,
                blocks(list(span)),
                f"{float(self.raw[row, column]):.4g}",
                f"{float(self.effects[row, column]):+.4g}",
                f"{float(self.mass[row, column]):.1%}",
            )
            for row, name in enumerate(self.names)
            for column, span in enumerate(self.windows)
        ]

    def plot(self) -> Figure:
        """A curve per pair over the windows."""
        from belvedere import plot

        return plot.curves(
            self.effects,
            names=self.names,
            columns=[blocks(list(span)) for span in self.windows],
            title=pictured.headed("knockout", f"{self.stack} attention", {"model": self.settings.get("model", "")}),
            unit=f"change of {self.settings.get('measured') or self.settings.get('metric', 'metric')}",
        )

    def __repr__(self) -> str:
        edges, windows = self.effects.shape
        row, column = divmod(int(self.effects.abs().argmax()), windows)
        skipped = f", blocks {', '.join(self.skipped)} have no pattern" if self.skipped else ""
        return (
            f"KnockoutResult(effects [edges {edges}, window {windows}], untouched {self.plain:.4g}, largest "
            f"{float(self.effects[row, column]):+.4g} by {self.names[row]} in blocks "
            f"{blocks(list(self.windows[column]))}{skipped})"
        )


#: The most copies of a prompt in a forward, and the most numbers in all their patterns of one block.
CELLS, NUMBERS = 32, 2**25


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The edges of one pair, ready to be laid over a pattern."""

    queries: Tensor
    keys: Tensor
    heads: Tensor | None

    def over(self, pattern: Tensor, start: int) -> Tensor:
        """``[heads, query, key]``, True where an edge of a pattern that begins at a position is cut."""
        heads, asking, asked = pattern.shape
        if self.heads is not None and bool((self.heads >= heads).any()):
            raise InputError(f"there is no head {int(self.heads.max())}; the block has {heads}")
        chosen = torch.ones(heads, dtype=torch.bool)
        if self.heads is not None:
            chosen = torch.zeros_like(chosen).index_fill(0, self.heads, True)
        who, whom = _own(self.queries, start, asking), _own(self.keys, start, asked)
        return (chosen[:, None, None] & who[:, None] & whom).to(pattern.device)


#: One run: what is cut, and in which blocks.
Cell = tuple[Cut, tuple[int, ...]]


def _own(positions: Tensor, start: int, length: int) -> Tensor:
    inside = positions[(positions >= start) & (positions < start + length)] - start
    return torch.zeros(length, dtype=torch.bool).index_fill(0, inside, True)


def _named(edges: Edges | Mapping[str, Edges]) -> dict[str, Edges]:
    pairs = edges if isinstance(edges, Mapping) else {"": edges}
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs.values()):
        raise InputError(
            "edges are a pair (queries, keys), or such pairs by name: {'last <- image': ('last', 'image')}"
        )
    return {name or f"{spoken(pair[0])} <- {spoken(pair[1])}": pair for name, pair in pairs.items()}


def _cut(model: StandardizedTransformer, side: Side, pair: Edges, stack: str, heads: int | Iterable[int] | None) -> Cut:
    queries, keys = (torch.tensor(positions_of(model, side, one, tower=stack == "vision")) for one in pair)
    chosen = None if heads is None else torch.tensor(sorted(set(whole(heads, "heads"))), dtype=torch.long)
    if chosen is not None and (not len(chosen) or int(chosen.min()) < 0):
        raise InputError("`heads` is empty or has a negative number; pass numbers of heads")
    return Cut(queries=queries, keys=keys, heads=chosen)


def _windows(layers: list[int], window: int | None) -> tuple[tuple[int, ...], ...]:
    size = len(layers) if window is None else whole(window, "window")[0]
    if not 1 <= size <= len(layers):
        raise InputError(f"a window of {size} blocks does not fit the {len(layers)} that have a pattern")
    return tuple(tuple(layers[start : start + size]) for start in range(len(layers) - size + 1))


@torch.no_grad()
def _masses(
    model: StandardizedTransformer, side: Side, patterns: Patterns, cuts: list[Cut]
) -> tuple[Tensor, Tensor, int]:
    """How much attention each pair's edges carry in each block of the untouched run, ``[edges, block]``.

    And where they leave a row hardly anything, ``[edges, block]``; and how many copies of the prompt keep the patterns
    of a block small.
    """

    def is_bare(held: list[tuple[int, Tensor]], cut: Cut) -> Tensor:
        laid = [(pattern, cut.over(pattern, start)) for start, pattern in held]
        left = [(pattern.float().masked_fill(edges, 0).sum(-1), edges.any(-1)) for pattern, edges in laid]
        least = torch.finfo(held[0][1].dtype).eps ** 0.5
        return torch.stack([((rest < least) & touched).any() for rest, touched in left]).any().cpu()

    def mass(held: list[tuple[int, Tensor]], cut: Cut) -> Tensor:
        laid = [(pattern.float(), cut.over(pattern, start)) for start, pattern in held]
        total = torch.stack([(pattern * edges).sum() for pattern, edges in laid]).sum()
        heads = held[0][1].shape[0] if cut.heads is None else len(cut.heads)
        return (total / (heads * len(cut.queries))).cpu()

    def look(held: list[tuple[int, Tensor]]) -> tuple[list[Tensor], list[Tensor], int]:
        masses, bare = ([see(held, cut) for cut in cuts] for see in (mass, is_bare))
        return masses, bare, sum(pattern.numel() for _, pattern in held)

    with model.trace(**side.encoding):
        found = nnsight.save([look(held) for held in _each(patterns)])
    most = max(1, min(CELLS, NUMBERS // max(size for *_, size in found)))
    masses, bare = (torch.stack([torch.stack(each[which]) for each in found], 1) for which in (0, 1))
    return masses, bare, most


def _each(patterns: Patterns) -> Iterable[list[tuple[int, Tensor]]]:
    """Every block's patterns, read when their turn comes."""
    return (patterns.read(layer) for layer in patterns.hosts)


def _batches(cells: list[tuple[int, int]], size: int) -> Iterable[list[tuple[int, int]]]:
    """The cells that share a forward: those of one window."""
    for _, alike in groupby(sorted(cells, key=itemgetter(1)), itemgetter(1)):
        found = list(alike)
        for first in range(0, len(found), size):
            yield found[first : first + size]


def _by_masks(begun: Resumed, patterns: Patterns) -> tuple[Masked | None, dict[str, str]]:
    """Cuts by masks, where they are cuts of the patterns too, and how cells are run."""

    def traced(queries: Tensor, keys: Tensor, layers: Sequence[int]) -> Tensor:
        cut = Cut(queries=queries, keys=keys, heads=None)
        return _logits(begun.model, begun.side, patterns, [(cut, tuple(layers))] * 2, True, begun)

    return masked(begun, tuple(patterns.hosts), traced)


def _masked(by_masks: Masked, cells: list[Cell]) -> Tensor:
    """The next token's logits of a copy of the prompt per cell, by masks: ``[cells, vocab]``."""
    length = by_masks.side.length
    every = torch.empty(()).expand(1, length, length)
    edges = torch.stack([cut.over(every, 0) for cut, _ in cells])
    return by_masks.logits(dict.fromkeys(cells[0][1], edges), min(int(cut.queries.min()) for cut, _ in cells))


@torch.no_grad()
def _logits(
    model: StandardizedTransformer,
    side: Side,
    patterns: Patterns,
    cells: list[Cell],
    renormalize: bool,
    begun: Resumed | None,
) -> Tensor:
    """The next token's logits of a copy of the prompt per cell, its edges cut in its own blocks: ``[cells, vocab]``."""

    def changed(layer: int, start: int, length: int, pattern: Tensor) -> Tensor:
        cut, span = cells[start // length]
        if layer not in span:
            return pattern
        return without(pattern, cut.over(pattern, start % length), renormalize=renormalize)

    def mask(layer: int) -> None:
        held = patterns.scores(layer)
        length = sum(scores.shape[1] for _, scores in held) // len(cells)
        written, emptied = [], []
        for start, scores in held:
            cut, span = cells[start // length]
            # A sink has no edges.
            edges = cut.over(scores[..., : scores.shape[1]], start % length)
            new, bare = shut(scores, edges & (layer in span))
            written.append(new)
            emptied.append(bare)
        if not any(bool(bare.any()) for bare in emptied):
            patterns.write_scores(layer, written)
            return
        # A softmax cannot leave a row empty.
        patterns.write(layer, [softmax_of(*pair) for pair in zip(written, emptied, strict=True)])

    def apply(layer: int) -> None:
        if renormalize and patterns.has_scores(layer):
            mask(layer)
            return
        held = patterns.read(layer)
        length = sum(pattern.shape[1] for _, pattern in held) // len(cells)
        patterns.write(layer, [changed(layer, start, length, pattern) for start, pattern in held])

    layers = sorted({layer for _, span in cells for layer in span})

    def edit() -> None:
        for layer in layers:
            apply(layer)

    if begun is not None:
        position = min(int(cut.queries.min()) for cut, _ in cells)
        return begun.logits(edit, len(cells), layers[0], layers[-1] + 1, position)
    with model.trace(**repeated(side.encoding, len(cells))):
        edit()
        logits: Tensor = nnsight.save(model.logits[:, side.last].float())
    return logits
