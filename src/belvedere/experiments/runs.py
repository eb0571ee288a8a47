"""One prompt with its pictures, encoded, and a plain run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere import inputs
from belvedere.components import NoVision
from belvedere.errors import InputError, Unavailable
from belvedere.geometry import PatchLayout
from belvedere.locating import locate
from belvedere.pictures import Pictures

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Side", "encoded", "joined", "kept", "layout_of", "listed", "next_logits", "repeated"]


LABELS = "labels"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of an experiment's inputs, encoded.

    Args:
        encoding: What `trace` takes, one prompt with its pictures.
        pictures: How many patches and image tokens each picture has.
        last: The position of the prompt's last token.
        sizes: Width and height of each picture before any processing; ``None`` where an encoding was given.
        shown: The pictures themselves; empty where an encoding was given.
    """

    encoding: dict[str, Any]
    pictures: Pictures
    last: int
    sizes: tuple[tuple[int, int], ...] | None = None
    shown: tuple[Any, ...] = ()

    @property
    def length(self) -> int:
        """How many positions the prompt has."""
        return int(self.encoding["input_ids"].shape[1])


def encoded(model: StandardizedTransformer, given: Mapping[str, Any], name: str) -> Side:
    """One input as an encoding of one prompt, without padding behind it and without labels.

    Padding on the right stands between a prompt and what is written behind it, and a position that is counted from the
    end would be one of it. Labels have a loss computed, and some processors make them unasked.

    Args:
        model: The model.
        given: What `trace` takes by keyword: an encoding, or ``{"text": prompt, "images": [picture]}``.
        name: What an error calls it.

    Raises:
        InputError: It is no mapping, or has no token ids, or more than one prompt.
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"the {name} input is a {type(given).__name__}; pass what `trace` takes by keyword: an encoding, or "
            "{'text': prompt, 'images': [picture]}"
        )
    invoke = inputs.encode(model, None, given)
    encoding = {name: _usable(held) for name, held in {**invoke.encoding, **invoke.forward}.items() if name != LABELS}
    ids = encoding.get("input_ids")
    if ids is None:
        raise InputError(f"the {name} input has no token ids; positions are counted by them")
    if len(ids) != 1:
        raise InputError(f"the {name} input has {len(ids)} prompts; pass one at a time")
    last = int(kept(encoding).nonzero().max())
    if last + 1 < ids.shape[1]:
        encoding = {name: _without_padding(name, held, ids.shape[1], last + 1) for name, held in encoding.items()}
    pictures = model.pictures(encoding)
    return Side(encoding=encoding, pictures=pictures, last=last, sizes=invoke.sizes, shown=invoke.pictures)


def listed(given: Any, name: str) -> list[Any]:
    """Several inputs.

    Raises:
        InputError: It is one, whose keys are no inputs.
    """
    if isinstance(given, (str, Mapping)):
        raise InputError(f"`{name}` is one input; pass a list of them, [{{'text': prompt, 'images': [picture]}}, ...]")
    return list(given)


def _usable(held: Any) -> Any:
    """A tensor that a gradient may go through, also where it was made in inference mode."""
    return held.clone() if isinstance(held, Tensor) and held.is_inference() else held


def _without_padding(name: str, held: Any, length: int, stop: int) -> Any:
    """What is left of a field where a prompt of a length ends before a position."""
    if not isinstance(held, Tensor) or name in inputs.PIXELS:
        return held
    if name == "position_ids" and held.shape[-1] == length:
        return held[..., :stop]
    if name == "attention_mask" and held.ndim == 4 and held.shape[-2:] == (length, length):
        return held[..., :stop, :stop]
    return held[:, :stop] if held.ndim > 1 and tuple(held.shape[:2]) == (1, length) else held


def layout_of(
    model: StandardizedTransformer, side: Side, sizes: Sequence[tuple[int, int]] | None = None
) -> PatchLayout:
    """Where an input's patches and image tokens are.

    Args:
        model: The model.
        side: The input.
        sizes: Width and height of each of its pictures; by default as they were encoded, where that is known.

    Raises:
        Unavailable: No picture reaches the model.
        InputError: It shows none, or its image tokens are not its pictures'.
    """
    if isinstance(model.vision, NoVision):
        raise Unavailable("vision.layout", str(model.vision.no_images()))
    return locate(model.vision, side.encoding, side.pictures, side.sizes if sizes is None else sizes)


def kept(encoding: Mapping[str, Any]) -> Tensor:
    """Which positions of an encoding's prompt are no padding: ``[seq]``."""
    ids = encoding["input_ids"][0]
    mask = encoding.get("attention_mask")
    return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask[0].bool()


def repeated(encoding: Mapping[str, Any], times: int) -> dict[str, Any]:
    """The same prompt several times over, with its pictures.

    Rows, pictures and packed patches all lie along the first axis, each prompt's after the other's.
    """
    return {
        key: held.repeat(times, *[1] * (held.ndim - 1)) if isinstance(held, Tensor) and held.ndim else held
        for key, held in encoding.items()
    }


def joined(first: Side, second: Side) -> dict[str, Any]:
    """Two prompts with their pictures, of the same shapes.

    Raises:
        InputError: They cannot be in one batch.
    """
    one, two = first.encoding, second.encoding
    alike = one.keys() == two.keys() and all(
        getattr(held, "shape", None) == getattr(two[key], "shape", None) for key, held in one.items()
    )
    if not alike:
        raise InputError("the two inputs have different fields, or fields of different shapes")
    return {
        key: torch.cat([held, two[key]]) if isinstance(held, Tensor) and held.ndim else held
        for key, held in one.items()
    }


@torch.no_grad()
def next_logits(model: StandardizedTransformer, side: Side) -> Tensor:
    """The logits of the token after the prompt, in float32: ``[1, vocab]``."""
    with model.trace(**side.encoding):
        logits: Tensor = nnsight.save(model.logits[:, side.last].float())
    return logits
