"""An answer of several tokens: written by the model, and laid behind its prompt to be looked at in one forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.runs import Side, next_logits

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["check_answer", "ends_of", "followed", "written"]

#: What a token that is written has in fields with one entry per position; 0 in all others.
WRITTEN = {"attention_mask": 1}
#: Fields of a prompt alone.
DROPPED = frozenset({"position_ids", "labels", "cache_position"})


def written(model: StandardizedTransformer, side: Side, count: int) -> list[int]:
    """What the model answers, greedily: so many tokens, or fewer where it ends before.

    Args:
        model: The model.
        side: The prompt.
        count: How many tokens at most.
    """
    tokens: list[int] = []
    while len(tokens) < count and not ends_of(model) & set(tokens):
        tokens.append(int(next_logits(model, followed(side, tokens)).argmax()))
    return tokens


def followed(side: Side, tokens: Sequence[int]) -> Side:
    """A prompt with tokens behind it, as if the model had written them; padding stays behind them."""
    if not tokens:
        return side
    cut = side.last + 1
    encoding: dict[str, Any] = {}
    for name, held in side.encoding.items():
        if name in DROPPED:
            continue
        per_token = isinstance(held, Tensor) and held.ndim > 1 and tuple(held.shape[:2]) == (1, side.length)
        encoding[name] = _extended(name, held, cut, tokens) if per_token else held
    return replace(side, encoding=encoding, last=side.last + len(tokens))


def ends_of(model: StandardizedTransformer) -> set[int]:
    """The tokens that end an answer."""
    given = getattr(getattr(model._module, "generation_config", None), "eos_token_id", None)
    return {given} if isinstance(given, int) else set(given or ())


def check_answer(tokens: Sequence[int], vocab: int) -> list[int]:
    """Tokens of a vocabulary.

    Raises:
        InputError: There is none, or one is no token.
    """
    strange = [token for token in tokens if not 0 <= token < vocab]
    if strange or not tokens:
        what = f"there is no token {strange[0]}; the vocabulary has {vocab}" if strange else "the answer has no tokens"
        raise InputError(what)
    return [int(token) for token in tokens]


def _extended(name: str, held: Tensor, cut: int, tokens: Sequence[int]) -> Tensor:
    if name == "input_ids":
        new = torch.tensor([list(tokens)], dtype=held.dtype, device=held.device)
    elif held.ndim > 2:
        # A mask of the pictures that each token may see: what is written sees those of the last one.
        new = held[:, cut - 1 : cut].expand(1, len(tokens), *held.shape[2:])
    else:
        new = torch.full((1, len(tokens)), WRITTEN.get(name, 0), dtype=held.dtype, device=held.device)
    return torch.cat([held[:, :cut], new, held[:, cut:]], 1)
