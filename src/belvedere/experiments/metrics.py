"""What an experiment measures: one number per row, from the logits of the token after the prompt."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Metric", "logit_difference", "probability"]

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
class Probability:
    """The probability of a token."""

    token: int

    def __call__(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)[:, self.token]

    def __str__(self) -> str:
        return f"probability of token {self.token}"


def logit_difference(answer_id: int, other_id: int) -> Metric:
    """The metric ``logit(answer) - logit(other)``: it tells two answers apart, and no shift of all logits changes it.

    Args:
        answer_id: The token that the clean run should give.
        other_id: The token that the corrupt run should give.
    """
    return LogitDifference(answer_id, other_id)


def probability(token_id: int) -> Metric:
    """The metric ``softmax(logits)[token]``: easy to read, but flat where the model is sure.

    Args:
        token_id: The token that the clean run should give.
    """
    return Probability(token_id)
