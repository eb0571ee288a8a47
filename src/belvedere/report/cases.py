"""A clean and a corrupt input that one picture tells apart, and the tokens that their answers are told apart by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from belvedere import inputs
from belvedere.errors import InputError
from belvedere.experiments import Metric, logit_difference, probability
from belvedere.experiments.runs import encoded, next_logits

if TYPE_CHECKING:
    from PIL.Image import Image

    from belvedere.standardized import StandardizedTransformer

__all__ = ["Case", "Token", "picture_case", "shapes_case"]

Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Token:
    """A word as the first token that it is written with.

    Args:
        id: The token's id.
        text: What the token spells.
        word: The word that was asked for.
        pieces: How many tokens the whole word takes.
    """

    id: int
    text: str
    word: str
    pieces: int = 1

    @property
    def note(self) -> str:
        """What to know of a word that is more than one token; empty otherwise."""
        if self.pieces == 1:
            return ""
        return f"{self.word!r} is {self.pieces} tokens; measured by its first one, {self.text!r}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the story is told about.

    Args:
        picture: The clean picture.
        corrupt_picture: The corrupt one.
        clean: The clean input, as `patch` takes it.
        corrupt: The corrupt input.
        question: What is asked of both, for a reader.
        target: The answer to the clean picture.
        other: The answer to the corrupt one, if it was given.
        changed: The box in which the pictures differ, in pixels.
        settings: What made it.
    """

    picture: Image
    corrupt_picture: Image
    clean: Mapping[str, Any]
    corrupt: Mapping[str, Any]
    question: str
    target: Token
    other: Token | None = None
    changed: Box | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        """The difference of the two answers' logits, or the target's probability where there is one answer only."""
        if self.other is None:
            return probability(self.target.id)
        return logit_difference(self.target.id, self.other.id)

    @property
    def measured(self) -> str:
        """The metric in words."""
        if self.other is None:
            return f"probability of {self.target.text!r}"
        return f"logit of {self.target.text!r} minus logit of {self.other.text!r}"

    @property
    def notes(self) -> list[str]:
        """What a reader should know about the tokens."""
        return [token.note for token in (self.target, self.other) if token is not None and token.note]


def shapes_case(model: StandardizedTransformer, name: str, seed: int) -> Case:
    """A pair of scenes that differ in one object, for a checkpoint of the package.

    Args:
        model: The checkpoint, loaded.
        name: Its name.
        seed: Which pair; the checkpoints were trained on none below a million.
    """
    from belvedere import shapes

    clean, corrupt = shapes.pair(seed, checkpoint=name, images=1)
    words = model.tokenizer
    return Case(
        picture=clean.image,
        corrupt_picture=corrupt.image,
        clean={"text": clean.prompt, "images": clean.images},
        corrupt={"text": corrupt.prompt, "images": corrupt.images},
        question=clean.question,
        target=spellings(words, clean.answer)[0],
        other=spellings(words, corrupt.answer)[0],
        changed=clean.changed,
        settings={"scenes": f"belvedere.shapes.pair({seed}, checkpoint={name!r}, images=1)"},
    )


def picture_case(
    model: StandardizedTransformer, picture: Image, corrupt_picture: Image, prompt: str, target: str, other: str | None
) -> Case:
    """A case of a user's own pictures.

    Args:
        model: The checkpoint, loaded.
        picture: The clean picture.
        corrupt_picture: The corrupt one, of the same size.
        prompt: The question; put into the checkpoint's chat template where it has no placeholder for the picture.
        target: The clean answer, a word.
        other: The corrupt answer, a word; without one the metric is the target's probability.

    Raises:
        InputError: A word is not in the vocabulary, or the input cannot be encoded.
    """
    clean, corrupt = (_asked(model, prompt, shown) for shown in (picture, corrupt_picture))
    return Case(
        picture=picture,
        corrupt_picture=corrupt_picture,
        clean=clean,
        corrupt=corrupt,
        question=prompt,
        target=_likeliest(model, target, clean),
        other=_likeliest(model, other, corrupt) if other is not None else None,
        changed=difference(picture, corrupt_picture),
    )


def _asked(model: StandardizedTransformer, prompt: str, picture: Image) -> dict[str, Any]:
    """The prompt with the picture, as an encoding."""
    token = str(getattr(model.processor, "image_token", "") or "")
    if token and token in prompt:
        return inputs.encode(model, prompt, {"images": [picture]}).encoding
    if getattr(model.processor, "chat_template", None):
        content = [{"type": "image", "image": picture}, {"type": "text", "text": prompt}]
        return inputs.encode(model, [{"role": "user", "content": content}], {}).encoding
    return inputs.encode(model, f"{token}\n{prompt}" if token else prompt, {"images": [picture]}).encoding


def spellings(tokenizer: Any, word: str) -> list[Token]:
    """The first tokens that a word can be written with: bare, and after a space.

    Raises:
        InputError: The vocabulary has none.
    """
    found: dict[int, Token] = {}
    for written in (word, f" {word}"):
        ids = tokenizer(written, add_special_tokens=False)["input_ids"]
        text = tokenizer.decode(ids[:1]) if ids else ""
        if text.strip() and ids[0] != tokenizer.unk_token_id:
            found.setdefault(ids[0], Token(id=ids[0], text=text, word=word, pieces=len(ids)))
    if not found:
        raise InputError(
            f"the word {word!r} is not in this checkpoint's vocabulary; pass one that its tokenizer can write"
        )
    return list(found.values())


def _likeliest(model: StandardizedTransformer, word: str, shown: Mapping[str, Any]) -> Token:
    """The spelling that the model itself would use."""
    logits: Tensor = next_logits(model, encoded(model, shown, "shown"))[0]
    return max(spellings(model.tokenizer, word), key=lambda token: float(logits[token.id]))


def difference(picture: Image, other: Image) -> Box | None:
    """The box around all pixels in which two pictures of one size differ; ``None`` where the sizes or no pixels do."""
    from PIL import ImageChops

    if picture.size != other.size:
        return None
    return ImageChops.difference(picture.convert("RGB"), other.convert("RGB")).getbbox()
