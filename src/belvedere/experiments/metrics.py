"""What an experiment measures: one number per row, from the logits of the token after the prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.tokens import Token

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = [
    "Metric",
    "bound",
    "in_words",
    "kl_divergence",
    "logit",
    "logit_difference",
    "measured",
    "metric_name",
    "probability",
    "rank",
    "told_apart",
]

#: Any function of ``[rows, vocab]`` logits that returns ``[rows]``.
Metric = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LogitDifference:
    """How much higher one token's logit is than another's."""

    answer: Token
    other: Token

    def __call__(self, logits: Tensor) -> Tensor:
        return logits[:, self.answer.index] - logits[:, self.other.index]

    def __str__(self) -> str:
        told_apart = str(self.answer) != str(self.other)
        answer, other = (one if told_apart else Token(one.number) for one in (self.answer, self.other))
        return f"logit difference, {answer} - {other}"


@dataclass(frozen=True)
class Logit:
    """A token's logit."""

    token: Token

    def __call__(self, logits: Tensor) -> Tensor:
        return logits[:, self.token.index]

    def __str__(self) -> str:
        return f"logit of {self.token}"


@dataclass(frozen=True)
class Probability:
    """The probability of a token."""

    token: Token

    def __call__(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)[:, self.token.index]

    def __str__(self) -> str:
        return f"probability of {self.token}"


@dataclass(frozen=True)
class Rank:
    """How many tokens are likelier than one."""

    token: Token

    def __call__(self, logits: Tensor) -> Tensor:
        return (logits > logits[:, [self.token.index]]).sum(-1).to(logits.dtype)

    def __str__(self) -> str:
        return f"rank of {self.token}"


@dataclass(frozen=True)
class Unbound:
    """A metric that is measured against the logits of a run that only the experiment knows."""

    bind: Callable[[Tensor], Metric]
    name: str

    def __call__(self, logits: Tensor) -> Tensor:
        raise InputError(f"the {self.name} is measured against the clean run; pass it to an experiment, or the logits")

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Divergence:
    """The Kullback-Leibler divergence of each row from a distribution, in nats: ``KL(reference || row)``."""

    reference: Tensor

    def __call__(self, logits: Tensor) -> Tensor:
        if self.reference.shape[-1] != logits.shape[-1]:
            raise InputError(
                f"the reference has {self.reference.shape[-1]} logits and the run {logits.shape[-1]}; pass logits of "
                "the same model, [1, vocab]"
            )
        wanted = self.reference.to(logits.device).double().log_softmax(-1)
        found = logits.double().log_softmax(-1)
        # Where the reference has no chance at all, its logarithm is minus infinity.
        terms = torch.where(wanted.exp() > 0, wanted.exp() * (wanted - found), 0.0)
        return terms.sum(-1).to(logits.dtype)

    def __str__(self) -> str:
        return "KL divergence"


def logit_difference(answer: int | str, other: int | str) -> Metric:
    """The metric ``logit(answer) - logit(other)``: it tells two answers apart, and no shift of all logits changes it.

    Args:
        answer: The token that the clean run should give: its number, or its word as the experiment's model writes it
            (a space in front counts).
        other: The token that the corrupt run should give.
    """
    return LogitDifference(Token.of(answer), Token.of(other))


def logit(token: int | str) -> Metric:
    """The metric ``logit(token)``: linear in the last stream, but a shift of all logits changes it too.

    Args:
        token: The token, by number or word.
    """
    return Logit(Token.of(token))


def probability(token: int | str) -> Metric:
    """The metric ``softmax(logits)[token]``: easy to read, but flat where the model is sure.

    Args:
        token: The token that the clean run should give, by number or word.
    """
    return Probability(Token.of(token))


def rank(token: int | str) -> Metric:
    """The metric that counts the tokens with a higher logit: 0 is the answer. It has steps, and so no gradient.

    Args:
        token: The token that the clean run should give, by number or word.
    """
    return Rank(Token.of(token))


def kl_divergence(logits: Tensor | None = None) -> Metric:
    """The metric ``KL(clean || run)`` in nats: how far the whole distribution is from the clean run's; 0 is clean.

    Its slope is zero at the clean run itself, so a gradient there says nothing.

    Args:
        logits: The clean logits ``[1, vocab]``; by default those of the experiment's own clean (or untouched) run.
    """
    return Unbound(Divergence, "KL divergence") if logits is None else Divergence(logits)


def in_words(model: StandardizedTransformer, metric: Metric) -> Metric:
    """A metric whose tokens are a model's, each with its number and its word.

    Raises:
        InputError: It is no metric, or the model has no such token.
    """
    if not callable(metric):
        raise InputError(
            f"{metric!r} is no metric; pass logit_difference(...), probability(...), or a function of logits"
        )
    if not isinstance(metric, (LogitDifference, Logit, Probability, Rank)):
        return metric
    return replace(metric, **{one.name: getattr(metric, one.name).known(model) for one in fields(metric)})


def bound(metric: Metric, logits: Tensor) -> Metric:
    """A metric that can be measured: one that waits for the clean run's logits is given them."""
    return metric.bind(logits) if isinstance(metric, Unbound) else metric


def metric_name(metric: Metric) -> str:
    """What a result calls a metric: the same in every process."""
    if isinstance(metric, partial):
        given = [repr(one) for one in metric.args] + [f"{name}={one!r}" for name, one in metric.keywords.items()]
        return f"{metric_name(metric.func)}({', '.join(given)})"
    kind: Any = type(metric)
    # By default an object is written with its address.
    said = kind.__name__ if (kind.__str__, kind.__repr__) == (object.__str__, object.__repr__) else str(metric)
    return str(getattr(metric, "__name__", None) or said)


def measured(metric: Metric, logits: Tensor) -> Tensor:
    """The metric of each row, checked.

    Raises:
        InputError: It does not give a finite number per row.
    """
    name = metric_name(metric)
    try:
        score = metric(logits)
    except IndexError as error:
        raise InputError(f"{name} does not fit a vocabulary of {logits.shape[-1]}: {error}") from error
    is_one_each = isinstance(score, Tensor) and score.shape == logits.shape[:1] and not score.is_complex()
    if not is_one_each or not bool(torch.isfinite(score).all()):
        got = tuple(score.shape) if isinstance(score, Tensor) and score.shape != logits.shape[:1] else score
        raise InputError(f"{name} must give a finite number per row, [rows, vocab] -> [rows]; it gave {got}")
    return score


def told_apart(metric: Metric, clean: Tensor, corrupt: Tensor) -> tuple[float, float]:
    """The metric of two runs, from the logits ``[1, vocab]`` of each.

    Raises:
        InputError: It is the same, so that nothing can be restored.
    """
    ends = float(measured(metric, clean)), float(measured(metric, corrupt))
    if ends[0] == ends[1]:
        raise InputError(
            f"{metric_name(metric)} is {ends[0]:.4g} in the clean run and in the corrupt one, so there is nothing to "
            "restore; choose inputs or tokens that it tells apart"
        )
    return ends
