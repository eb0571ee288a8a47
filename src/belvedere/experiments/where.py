"""Which positions an experiment is about: by name, by number, or by a box of the picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.components import NoVision
from belvedere.errors import InputError
from belvedere.experiments.numbers import whole
from belvedere.experiments.pairs import image_tokens
from belvedere.experiments.runs import Side, kept, layout_of
from belvedere.locating.shown import NO_SIZES

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Inside", "Where", "boxes_of", "model_name", "positions_of", "refuse_other_model", "spoken"]

#: The names of sets of positions.
TOKENS = ("all", "image", "last", "text")
ROWS = ("all", "other", "patches")


@dataclass(frozen=True)
class Inside:
    """The positions that show a box of a picture: image tokens in the text, patches in the tower.

    Args:
        box: ``(left, top, right, bottom)`` in the original picture's pixels.
        image: The picture's number.
        size: Width and height of the original picture, where the input is an encoding, which does not say them.
        outside: All other positions that show the picture instead.
    """

    box: tuple[float, float, float, float]
    image: int = 0
    size: tuple[int, int] | None = None
    outside: bool = False

    def __post_init__(self) -> None:
        edges = tuple(self.box)
        if len(edges) != 4:
            raise InputError(f"a box is (left, top, right, bottom); this one has {len(edges)} numbers")
        if whole(self.image, "image")[0] < 0:
            raise InputError(f"image={self.image}: pictures are counted from 0")
        # A frozen record is made whole here, so that a list is as good as a tuple.
        object.__setattr__(self, "box", tuple(float(edge) for edge in edges))

    def __str__(self) -> str:
        return f"{'outside' if self.outside else 'inside'} {tuple(round(edge) for edge in self.box)}"


#: A name, a number or several, or a box.
Where = str | int | Iterable[int] | Inside


def positions_of(model: StandardizedTransformer, side: Side, where: Where, *, tower: bool = False) -> tuple[int, ...]:
    """The positions that someone asks for, in order.

    Args:
        model: The model.
        side: The input.
        where: ``"all"``, ``"image"``, ``"text"`` or ``"last"`` of the prompt; ``"all"``, ``"patches"`` or ``"other"``
            (CLS and the like) of the tower; numbers; or a box.
        tower: Whether they count the tower's rows, over all pictures, rather than tokens.

    Raises:
        InputError: There is no such name or position, or the set is empty.
    """
    if isinstance(where, Inside):
        found = _inside(model, side, where, tower)
    elif isinstance(where, str):
        found = _named(model, side, where, tower)
    else:
        length = len(layout_of(model, side).patches) if tower else side.length
        found = torch.tensor(numbers_in(where, length, tower=tower), dtype=torch.long)
    if not len(found):
        raise InputError(_none_of(where, side))
    return tuple(sorted(set(found.tolist())))


def is_one(where: Any) -> bool:
    """Whether it is one set of positions by itself: a name, a box, or a number."""
    return isinstance(where, (str, Inside)) or getattr(where, "ndim", None) == 0 or not isinstance(where, Iterable)


def numbers_in(given: int | Iterable[int], length: int, *, tower: bool) -> tuple[int, ...]:
    """Positions by number, each once, in the order in which they are given; below 0 they count from the end.

    Args:
        given: A number, or several.
        length: How many positions there are.
        tower: Whether they are the tower's rows.

    Raises:
        InputError: One is no whole number, or there is no such position.
    """
    numbers = whole(given, "positions")
    outside = [number for number in numbers if not -length <= number < length]
    if outside:
        what = "tower rows" if tower else "tokens"
        raise InputError(f"there is no position {outside[0]}; the input has {length} {what}, 0 to {length - 1}")
    return tuple(dict.fromkeys(number % length for number in numbers))


def boxes_of(model: StandardizedTransformer, side: Side, positions: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Where positions of a prompt lie in its pictures.

    Returns:
        ``[position, 4]`` in the original picture's pixels, NaN where a position shows none or its place is not known;
        and ``[position]``, the picture's number, -1 for text.
    """
    boxes = torch.full((side.length, 4), torch.nan, dtype=torch.float64)
    images = torch.full((side.length,), -1)
    if side.pictures.count and not side.pictures.videos and not isinstance(model.vision, NoVision):
        layout = layout_of(model, side)
        if len(layout.positions):
            places = layout.positions[:, 1]
            boxes[places] = layout.tokens.source_box.double()
            images[places] = layout.tokens.image
    chosen = list(positions)
    return boxes[chosen], images[chosen]


def spoken(where: Where) -> str:
    """How a set of positions is written in a table."""
    if isinstance(where, (str, Inside)):
        return str(where)
    numbers = whole(where, "positions")
    return ", ".join(map(str, numbers)) if len(numbers) < 4 else f"{numbers[0]} and {len(numbers) - 1} more"


def model_name(model: StandardizedTransformer) -> str:
    """What the model was loaded from, or its class."""
    name: Any = getattr(model.config, "name_or_path", "") or getattr(model._module.config, "name_or_path", "")
    return str(name) or type(model._module).__name__


def refuse_other_model(model: StandardizedTransformer, made_of: str, what: str, way: str) -> None:
    """What was made of one model's activations says nothing of another's, whatever their widths.

    Raises:
        InputError: It was made of another.
    """
    name = model_name(model)
    # A checkpoint in a folder is the one that it was copied from.
    if made_of and PurePath(made_of).name != PurePath(name).name:
        raise InputError(f"the {what} was made of {made_of} and this model is {name}; {way}")


def _none_of(where: Where, side: Side) -> str:
    """Why a set of positions is empty, and what to pass."""
    if isinstance(where, str):
        why = "; it shows no picture" if where in ("image", "patches") and not side.pictures.count else ""
        return f"this input has no positions {where!r}{why}; pass numbers, or another name"
    if isinstance(where, Inside):
        return f"no position of picture {where.image} is {where}; pass a box that it has"
    return "`positions` is empty; pass numbers, a name or a box"


def _named(model: StandardizedTransformer, side: Side, name: str, tower: bool) -> Tensor:
    known = ROWS if tower else TOKENS
    if name not in known:
        raise InputError(f"{name!r} names no positions; known: {', '.join(known)}; or pass numbers, or Inside(box)")
    if tower:
        layout = layout_of(model, side)
        shown = layout.patches.of_kind("patch")
        return {"all": torch.ones_like(shown), "patches": shown, "other": ~shown}[name].nonzero().flatten()
    if name == "last":
        return torch.tensor([side.last])
    real = kept(side.encoding).cpu()
    shown = torch.zeros_like(real)
    shown[image_tokens(model, side)] = True
    return {"all": real, "image": shown, "text": real & ~shown}[name].nonzero().flatten()


def _inside(model: StandardizedTransformer, side: Side, where: Inside, tower: bool) -> Tensor:
    known = None if side.sizes or where.size is None else [where.size] * side.pictures.count
    layout = layout_of(model, side, known)
    if layout.unsourced == NO_SIZES:
        raise InputError(
            "an encoding does not say how large its pictures were; pass Inside(box, size=(width, height)), or the "
            "prompt and its pictures"
        )
    found = layout.patches_in(where.box, where.image) if tower else layout.tokens_in(where.box, where.image)
    if where.outside:
        whole = layout.rows_of(where.image) if tower else layout.tokens_of(where.image)
        if tower:
            whole = whole[layout.patches.of_kind("patch")[whole]]
        found = whole[~torch.isin(whole, found)]
    return found if tower else layout.positions[found, 1]
