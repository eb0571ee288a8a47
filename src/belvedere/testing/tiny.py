"""Tiny random checkpoints of every type that Belvedere names, for tests of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from torch import Tensor

from belvedere.spelling import did_you_mean
from belvedere.testing.row import Row
from belvedere.testing.weights import randomize
from belvedere.testing.zoo import ROWS

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Tiny", "build", "tiny"]

#: Width and height of the pictures of a tiny checkpoint.
SIZES = ((40, 24), (24, 48))


def build(name: str, attention: str = "sdpa", **overrides: Any) -> Any:
    """A row's module with seeded random weights.

    Args:
        name: A row of the zoo.
        attention: The attention implementation; the row's first one where it does not take it.
        **overrides: Fields of the row's config; a dictionary for ``text_config`` or ``vision_config`` changes those
            fields of it.
    """
    import transformers

    row: Row = ROWS[name]
    config = row.config()
    for field, given in overrides.items():
        inner: Any = getattr(config, field, None)
        if isinstance(given, dict) and hasattr(inner, "update"):
            inner.update(given)
        else:
            setattr(config, field, given)
    attention = attention if attention in row.kernels else row.kernels[0]
    torch.manual_seed(0)
    module = getattr(transformers, row.auto).from_config(config, attn_implementation=attention)
    return randomize(module)


def row_of(model_type: str) -> str:
    """The row of a model type: the one of that name, else the first whose config is of that type.

    Raises:
        ValueError: There is none.
    """
    if model_type in ROWS:
        return model_type
    for name, row in ROWS.items():
        if row.config().model_type == model_type:
            return name
    raise ValueError(
        f"no tiny checkpoint of {model_type!r}; there are {', '.join(sorted(ROWS))}{did_you_mean(model_type, ROWS)}"
    )


@dataclass(frozen=True)
class Tiny:
    """A tiny random checkpoint with inputs of its own.

    Args:
        name: Its row of the zoo.
        module: The transformers model, in evaluation mode, whose every parameter is seeded noise.
        form: A form of its processor that the row names; its usual one by default.
    """

    name: str
    module: Any
    form: str = ""

    def __repr__(self) -> str:
        return f"Tiny({self.name!r}: {type(self.module).__name__})"

    @property
    def row(self) -> Row:
        """The row of the zoo."""
        return ROWS[self.name]

    @property
    def encoding(self) -> dict[str, Tensor]:
        """Two prompts, one of them padded, with all that goes beside ids; pictures of several sizes where it can."""
        return self.row.inputs()

    @cached_property
    def processor(self) -> Any:
        """Its processor; ``None`` where none can be made without a download."""
        made = self.row.forms[self.form] if self.form else self.row.processor
        return None if made is None else made()

    @property
    def images(self) -> list[Image.Image]:
        """Two pictures of different sizes, for the processor; none for a text model."""
        made = torch.Generator().manual_seed(0)
        sizes = SIZES if self.row.tower else ()
        pixels = [torch.randint(0, 256, (height, width, 3), generator=made).byte() for width, height in sizes]
        return [Image.fromarray(one.numpy()) for one in pixels]

    @property
    def prompt(self) -> str:
        """A prompt that shows both pictures."""
        return f"what is in {self.row.placeholder} and in {self.row.placeholder} ?"

    @cached_property
    def model(self) -> StandardizedTransformer:
        """The standardized model, with the processor where there is one."""
        from belvedere.standardized import StandardizedTransformer

        return StandardizedTransformer(self.module, processor=self.processor)


def tiny(model_type: str, attention: str = "sdpa", **overrides: Any) -> Tiny:
    """A tiny random checkpoint of any type that Belvedere names.

    ::

        tiny = belvedere.testing.tiny("qwen3_5")
        with tiny.model.trace(tiny.prompt, images=tiny.images):
            features = tiny.model.vision.image_features.save()

    Args:
        model_type: A wrapper's or a text model's type, or a row of the zoo such as ``"llava_siglip"``.
        attention: The attention implementation.
        **overrides: Fields of its config; a dictionary for ``text_config`` or ``vision_config`` changes those fields.

    Raises:
        ValueError: There is no tiny checkpoint of that type.
    """
    name = row_of(model_type)
    return Tiny(name, build(name, attention, **overrides))
