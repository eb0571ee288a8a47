"""Steering: a direction of the stream, found by contrast, and added while the model writes.

The direction is a difference of means: what some inputs have in common at a block, less what others have (Turner et
al., "Steering Language Models With Activation Engineering", 2023; Rimsky et al., "Steering Llama 2 via Contrastive
Activation Addition", 2024). The inputs may differ in their prompts or in their pictures.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import nnsight
import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from belvedere.errors import InputError
from belvedere.experiments.metrics import Metric, bound, in_words, kl_divergence, measured, metric_name
from belvedere.experiments.numbers import whole
from belvedere.experiments.progress import Bar
from belvedere.experiments.readings import words_of
from belvedere.experiments.runs import Side, encoded, listed, next_logits
from belvedere.experiments.saved import Result
from belvedere.experiments.settled import experiment
from belvedere.experiments.sites import Site
from belvedere.experiments.where import Where, model_name, positions_of, refuse_other_model, spoken

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belvedere.standardized import StandardizedTransformer

__all__ = ["SteeringResult", "SteeringVector", "steer", "steering_vector"]

VALUE = "layers.layer_output"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SteeringVector(Result):
    """A direction in the stream that leaves a text block.

    Args:
        vector: ``[hidden]``, the mean of the positive inputs less that of the negative ones.
        positive: ``[inputs]``, where each positive input lies along the direction: 0 is half way between the means, 0.5
            the positive mean, -0.5 the negative one.
        negative: ``[inputs]``, the same of the negative inputs.
        layer: The block.
        settings: What else made it: the model, and the positions that were averaged.
    """

    KIND: ClassVar[str] = "steering vector"
    HEADER: ClassVar[str] = "belvedere.steering_vector"
    HEADINGS: ClassVar[tuple[str, ...]] = ("inputs", "number", "lowest", "mean", "highest")

    vector: Tensor
    positive: Tensor
    negative: Tensor
    layer: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def norm(self) -> float:
        """Its length."""
        return float(self.vector.norm())

    def add(self, model: StandardizedTransformer, factor: float = 1.0, positions: Any = None) -> None:
        """Inside a trace: add it to the stream that leaves its block, as ``model.steer`` does.

        Args:
            model: The model.
            factor: What it is multiplied by.
            positions: An index into the sequence, or a mask ``[batch, seq]``; all by default.
        """
        model.steer(self.layer, self.vector, factor, positions)

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"direction at block {self.layer}, length {self.norm:.4g}"

    def lines(self) -> list[tuple[str, ...]]:
        """Where the inputs lie along it: the two lines should not overlap."""
        sides = {"positive": self.positive, "negative": self.negative}
        return [
            (name, str(len(held)), *(f"{float(edge):+.2f}" for edge in (held.min(), held.mean(), held.max())))
            for name, held in sides.items()
        ]

    def plot(self) -> Figure:
        """Where each input lies along it."""
        from belvedere import plot

        most = max(len(self.positive), len(self.negative))
        rows = torch.full((2, most), torch.nan)
        for row, held in zip(rows, (self.positive, self.negative), strict=True):
            row[: len(held)] = held.sort().values
        return plot.curves(
            rows,
            names=("positive", "negative"),
            columns=range(most),
            title=self.title,
            unit="place along the direction",
            across="inputs, from the lowest",
        )

    def __repr__(self) -> str:
        counts = f"{len(self.positive)} positive, {len(self.negative)} negative inputs"
        apart = float(self.positive.min()) > float(self.negative.max())
        return (
            f"SteeringVector(block {self.layer}: [hidden {len(self.vector)}], length {self.norm:.4g}, {counts}, "
            f"{'all' if apart else 'not all'} told apart)"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SteeringResult(Result):
    """What the model writes under a direction, by its factor.

    Args:
        scores: ``[factor]``, the metric at the first token that is written.
        tokens: ``[factor, step]``, what is written; -1 behind the end.
        factors: What the direction was multiplied by.
        texts: What is written, in words.
        layer: The block.
        settings: What else made it: the model, the metric, the steps and positions.
    """

    KIND: ClassVar[str] = "steering result"
    HEADER: ClassVar[str] = "belvedere.steering"
    HEADINGS: ClassVar[tuple[str, ...]] = ("factor", "metric", "written")

    scores: Tensor
    tokens: Tensor
    factors: tuple[float, ...]
    texts: tuple[str, ...]
    layer: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"steered at block {self.layer}; {self.settings.get('metric', 'metric')}"

    def lines(self) -> list[tuple[str, ...]]:
        """One line per factor."""
        return [
            (f"{factor:g}", f"{score:.4g}", text)
            for factor, score, text in zip(self.factors, self.scores.tolist(), self.texts, strict=True)
        ]

    def plot(self) -> Figure:
        """The metric over the factors."""
        from belvedere import plot

        return plot.curves(
            self.scores[None],
            names=(f"block {self.layer}",),
            columns=[f"{factor:g}" for factor in self.factors],
            title="steering",
            unit=str(self.settings.get("metric", "metric")),
            across="factor",
        )

    def __repr__(self) -> str:
        written = ", ".join(f"{factor:g}: {text!r}" for factor, text in zip(self.factors, self.texts, strict=True))
        return f"SteeringResult(block {self.layer}: {written})"


@experiment
def steering_vector(
    model: StandardizedTransformer,
    positive: Iterable[Mapping[str, Any]],
    negative: Iterable[Mapping[str, Any]],
    layer: int,
    positions: Where = "last",
    *,
    progress: bool | None = None,
) -> SteeringVector:
    """The direction from some inputs to others, at a text block.

    Args:
        model: The model.
        positive: Inputs that have what is looked for, each as `trace` takes it by keyword.
        negative: Inputs that lack it, and else are alike.
        layer: The text block whose ``layer_output`` is read.
        positions: The positions of each input that are averaged: the last token by default; ``"image"``, ``"text"``,
            ``"all"``, numbers, or `Inside` a box.
        progress: Whether to show a bar.

    Raises:
        InputError: A side is empty, or there is no such block or position.
    """
    site = Site.find(model, VALUE, [layer])
    sides = [listed(positive, "positive"), listed(negative, "negative")]
    if not all(sides):
        raise InputError("a direction needs positive and negative inputs; pass at least one of each")
    means = []
    with Bar(f"direction at block {layer}", sum(map(len, sides)), progress) as bar:
        for name, inputs in zip(("positive", "negative"), sides, strict=True):
            held = []
            for number, shown in enumerate(inputs):
                held.append(_mean(model, encoded(model, shown, f"{name} {number}"), site, layer, positions))
                bar.advance(1)
            means.append(torch.stack(held))
    ends = [held.mean(0) for held in means]
    vector = ends[0] - ends[1]
    length = vector.square().sum().clamp_min(torch.finfo(torch.float32).tiny)
    places = [((held - (ends[0] + ends[1]) / 2) @ vector / length).cpu() for held in means]
    return SteeringVector(
        vector=vector.cpu(),
        positive=places[0],
        negative=places[1],
        layer=layer,
        settings={"model": model_name(model), "positions": spoken(positions)},
    )


@experiment
def steer(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    direction: SteeringVector,
    *,
    factors: Sequence[float] = (0, 1, 2, 4),
    steps: str | Iterable[int] = "prompt",
    positions: Where = "all",
    metric: Metric | None = None,
    max_new_tokens: int = 8,
    progress: bool | None = None,
    **generation: Any,
) -> SteeringResult:
    """What the model writes with a direction added to its stream: greedily, unless told otherwise.

    Args:
        model: The model.
        shown: The input, as `trace` takes it by keyword.
        direction: The direction, which says at which block.
        factors: What it is multiplied by; 0 is the untouched model.
        steps: When it is added: ``"prompt"``, to the prompt alone; ``"all"``, to each token that is written too; or the
            numbers of steps, where 0 is the prompt and step ``n`` the ``n``-th token that is written.
        positions: To which positions of the prompt; all by default.
        metric: What is measured at the first written token; by default how far its distribution is from the untouched.
        max_new_tokens: How many tokens are written at most.
        progress: Whether to show a bar.
        **generation: What else ``generate`` takes; what is written is what it chose.

    Raises:
        InputError: There is no such position, step or block, or ``generate`` would write several texts, or not a token
            a step.
    """
    if max_new_tokens < 1 or not factors:
        raise InputError("nothing would be written; pass factors, and max_new_tokens of 1 or more")
    way = "make one of this model, or add this one inside `model.generate` (`direction.add`)"
    refuse_other_model(model, str(direction.settings.get("model", "")), "direction", way)
    wanted = _steps(steps, max_new_tokens)
    side = encoded(model, shown, "shown")
    where = list(positions_of(model, side, positions))
    plain = next_logits(model, side)
    metric = bound(in_words(model, kl_divergence() if metric is None else metric), plain)
    _refuse_other_than_a_token_a_step(generation)
    generation = {"do_sample": False, **generation, "max_new_tokens": max_new_tokens}
    written, scores = [], []
    with Bar("steering", len(factors), progress) as bar:
        for factor in factors:
            logits, chosen = _generated(model, side, direction, factor, where, wanted, generation)
            scores.append(measured(metric, logits))
            written.append(chosen)
            bar.advance(1)
    tokens = torch.tensor([[*row, *[-1] * (max_new_tokens - len(row))] for row in written])
    return SteeringResult(
        scores=torch.cat(scores).float().cpu(),
        tokens=tokens,
        factors=tuple(float(factor) for factor in factors),
        texts=tuple(_text(model, row) for row in written),
        layer=direction.layer,
        settings={"model": model_name(model), "metric": metric_name(metric), "steps": tuple(sorted(wanted))}
        | {"positions": spoken(positions)},
    )


def _steps(steps: str | Iterable[int], count: int) -> set[int]:
    """The numbers of the steps that are steered, of so many."""
    if not isinstance(steps, str):
        wanted = set(whole(steps, "steps"))
        strange = sorted(step for step in wanted if not 0 <= step < count)
        if strange or not wanted:
            what = f"there is no step {strange[0]}" if strange else "`steps` is empty"
            raise InputError(f"{what}; max_new_tokens={count} makes steps 0 to {count - 1}")
        return wanted
    if steps not in ("prompt", "all"):
        raise InputError(f"steps={steps!r} is neither 'prompt' nor 'all'; or pass the numbers of steps")
    return {0} if steps == "prompt" else set(range(count))


@torch.no_grad()
def _mean(model: StandardizedTransformer, side: Side, site: Site, layer: int, positions: Where) -> Tensor:
    """The mean stream of an input over its positions: ``[hidden]``."""
    rows = torch.tensor(positions_of(model, side, positions))
    with model.trace(**side.encoding):
        held: Tensor = nnsight.save(site.rows(layer, rows).float().mean(0))
    return held


#: What ``generate`` takes that leaves a run with another number of texts, or of tokens a step, and its usual value.
ONE_BY_ONE = {
    "num_beams": 1,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "use_cache": True,
    "assistant_model": None,
    "prompt_lookup_num_tokens": None,
    "custom_generate": None,
    "penalty_alpha": None,
    "dola_layers": None,
    "max_length": None,
}


def _refuse_other_than_a_token_a_step(generation: Mapping[str, Any]) -> None:
    config = generation.get("generation_config")
    for name, usual in ONE_BY_ONE.items():
        given = generation.get(name, None if name == "max_length" else getattr(config, name, None))
        if given is not None and given != usual:
            way = "pass max_new_tokens" if name == "max_length" else "use `direction.add` inside `model.generate`"
            raise InputError(f"{name}={given!r}: steering writes one text, a token a step; {way}")


class Chosen(StoppingCriteria):
    """Notes each token that ``generate`` chose, whatever stands between it and the logits, and stops nothing."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        self.tokens.append(int(input_ids[0, -1]))
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


@torch.no_grad()
def _generated(
    model: StandardizedTransformer,
    side: Side,
    direction: SteeringVector,
    factor: float,
    where: list[int],
    steps: set[int],
    generation: dict[str, Any],
) -> tuple[Tensor, list[int]]:
    """The logits of the first token that is written, ``[1, vocab]``, and what is written."""
    chosen = Chosen()
    stops = StoppingCriteriaList([chosen, *generation.get("stopping_criteria", ())])
    with (
        _ending_early(),
        model.generate(**side.encoding, **{**generation, "stopping_criteria": stops}) as tracer,
    ):
        held = nnsight.save([])
        for step in tracer.iter[: generation["max_new_tokens"]]:
            if step in steps and factor:
                direction.add(model, factor, None if step else where)
            if step == 0:
                held.append(model.logits[:1, -1].float().clone())
    return held[0], chosen.tokens


@contextmanager
def _ending_early() -> Iterator[None]:
    """A text may end before the steps do."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*was never reached.*")
        yield


def _text(model: StandardizedTransformer, tokens: list[int]) -> str:
    if model.tokenizer is not None:
        return str(model.tokenizer.decode(tokens, skip_special_tokens=True)).strip()
    words = words_of(model, tokens)
    return " ".join(words[str(token)] for token in tokens)
