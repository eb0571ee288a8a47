"""A token as someone names it: by its number, or by the word that a model's tokenizer writes for it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere.errors import InputError

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Token", "numbers_of"]

#: What a tokenizer writes for bytes that are no text.
NO_TEXT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Token:
    """A token.

    Args:
        number: Its number; ``None`` where only its word is known, until a model's tokenizer is at hand.
        word: Its word; empty where it is not known.
    """

    number: int | None
    word: str = ""

    @classmethod
    def of(cls, given: Any) -> Token:
        """The token that someone passes.

        Raises:
            InputError: It is neither a word nor a whole number of 0 or more.
        """
        if isinstance(given, str) and given:
            return cls(None, given)
        try:
            number = operator.index(given)
        except TypeError:
            number = -1
        if number < 0 or isinstance(given, bool):
            raise InputError(f"{given!r} is no token; pass a word, or a token's number, which is 0 or more")
        return cls(number)

    @property
    def index(self) -> int:
        """Its number.

        Raises:
            InputError: Only its word is known.
        """
        if self.number is None:
            raise InputError(
                f"{self.word!r} is a word, whose number a model's tokenizer knows; pass the metric to an experiment, "
                "or the token's number"
            )
        return self.number

    def known(self, model: StandardizedTransformer) -> Token:
        """The same token of a model, with its number and its word.

        Raises:
            InputError: The model has no such token, or only the one that stands for all words that it does not know.
        """
        number = _number(model, self.word) if self.number is None else self.number
        if number >= model.vocab_size:
            raise InputError(f"there is no token {number}; the vocabulary has {model.vocab_size}")
        if self.number is not None and number == _unknown(model):
            raise InputError(
                f"token {number} is {model.tokenizer.unk_token!r}, which the tokenizer gives for every word that it "
                "does not know; pass a word that it knows"
            )
        return Token(number, _word(model, number))

    def __str__(self) -> str:
        if not self.word:
            return f"token {self.number}"
        return self.word if self.word == self.word.strip() else repr(self.word)


def numbers_of(model: StandardizedTransformer, given: Any) -> list[int]:
    """The numbers of some tokens, each a word or a number.

    Args:
        model: The model.
        given: A token, or several.

    Raises:
        InputError: The model has no such token.
    """
    held = given.tolist() if hasattr(given, "tolist") else given
    several = isinstance(held, Iterable) and not isinstance(held, str)
    return [Token.of(one).known(model).index for one in (held if several else [held])]


def _number(model: StandardizedTransformer, word: str) -> int:
    tokenizer: Any = model.tokenizer
    if tokenizer is None:
        raise InputError(f"this model has no tokenizer that knows {word!r}; pass the token's number")
    found = list(tokenizer.encode(word, add_special_tokens=False))
    if len(found) != 1:
        parts = ", ".join(f"{tokenizer.decode([one])!r} ({one})" for one in found) or "none"
        raise InputError(f"{word!r} is {len(found)} tokens and not one: {parts}; pass one of them, by its number")
    number = int(found[0])
    if number == tokenizer.unk_token_id and word != tokenizer.unk_token:
        raise InputError(f"the tokenizer does not know {word!r}; pass a word that it knows, or a token's number")
    return number


def _unknown(model: StandardizedTransformer) -> int | None:
    """The token that stands for unknown words and for nothing else."""
    tokenizer: Any = model.tokenizer
    unknown = getattr(tokenizer, "unk_token_id", None)
    others = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "pad")}
    return None if unknown in others else unknown


def _word(model: StandardizedTransformer, number: int) -> str:
    """How a token is written; empty where that says nothing."""
    if model.tokenizer is None:
        return ""
    word = str(model.tokenizer.decode([number]))
    return word if word.strip() and NO_TEXT not in word else ""
