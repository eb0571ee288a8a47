"""What an experiment measures: one number per row, from the logits of the token after the prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from belvedere.errors import InputError

__all__ = [
    "Metric",
    "bound",
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

    answer: int
    other: int

    def __call__(self, logits: Tensor) -> Tensor:
        return logits[:, self.answer] - logits[:, self.other]

    def __str__(self) -> str:
        return f"logit difference, token {self.answer} - token {self.other}"


@dataclass(frozen=True)
class Logit:
    """A token's logit."""

    token: int

    def __call__(self, logits: Tensor) -> Tensor:
        return logits[:, self.token]

    def __str__(self) -> str:
        return f"logit of token {self.token}"


@dataclass(frozen=True)
class Probability:
    """The probability of a token."""

    token: int

    def __call__(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)[:, self.token]

    def __str__(self) -> str:
        return f"probability of token {self.token}"


@dataclass(frozen=True)
class Rank:
    """How many tokens are likelier than one."""

    token: int

    def __call__(self, logits: Tensor) -> Tensor:
        return (logits > logits[:, [self.token]]).sum(-1).to(logits.dtype)

    def __str__(self) -> str:
        return f"rank of token {self.token}"


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
        wanted = self.reference.to(logits.device).double().log_softmax(-1)
        found = logits.double().log_softmax(-1)
        # Where the reference has no chance at all, its logarithm is minus infinity.
        terms = torch.where(wanted.exp() > 0, wanted.exp() * (wanted - found), 0.0)
        return terms.sum(-1).to(logits.dtype)

    def __str__(self) -> str:
        return "KL divergence"


def logit_difference(answer_id: int, other_id: int) -> Metric:
    """The metric ``logit(answer) - logit(other)``: it tells two answers apart, and no shift of all logits changes it.

    Args:
        answer_id: The token that the clean run should give.
        other_id: The token that the corrupt run should give.
    """
    return LogitDifference(answer_id, other_id)


def logit(token_id: int) -> Metric:
    """The metric ``logit(token)``: linear in the last stream, but a shift of all logits changes it too.

    Args:
        token_id: The token.
    """
    return Logit(token_id)


def probability(token_id: int) -> Metric:
    """The metric ``softmax(logits)[token]``: easy to read, but flat where the model is sure.

    Args:
        token_id: The token that the clean run should give.
    """
    return Probability(token_id)


def rank(token_id: int) -> Metric:
    """The metric that counts the tokens with a higher logit: 0 is the answer. It has steps, and so no gradient.

    Args:
        token_id: The token that the clean run should give.
    """
    return Rank(token_id)


def kl_divergence(logits: Tensor | None = None) -> Metric:
    """The metric ``KL(clean || run)`` in nats: how far the whole distribution is from the clean run's; 0 is clean.

    Its slope is zero at the clean run itself, so a gradient there says nothing.

    Args:
        logits: The clean logits ``[1, vocab]``; by default those of the experiment's own clean (or untouched) run.
    """
    return Unbound(Divergence, "KL divergence") if logits is None else Divergence(logits)


def bound(metric: Metric, logits: Tensor) -> Metric:
    """A metric that can be measured: one that waits for the clean run's logits is given them."""
    return metric.bind(logits) if isinstance(metric, Unbound) else metric


def metric_name(metric: Metric) -> str:
    """What a result calls a metric."""
    return getattr(metric, "__name__", None) or str(metric)


def measured(metric: Metric, logits: Tensor) -> Tensor:
    """The metric of each row, checked.

    Raises:
        InputError: It is no metric, or does not give a finite number per row.
    """
    if not callable(metric):
        raise InputError(
            f"{metric!r} is no metric; pass logit_difference(...), probability(...), or a function of logits"
        )
    name = metric_name(metric)
    try:
        score = metric(logits)
    except IndexError as error:
        raise InputError(f"{name} does not fit a vocabulary of {logits.shape[-1]}: {error}") from error
    if not isinstance(score, Tensor) or score.shape != logits.shape[:1] or not bool(torch.isfinite(score).all()):
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
