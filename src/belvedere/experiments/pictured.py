"""What a result keeps of the pictures that its positions show, so that it can be laid over them later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.errors import InputError, Unavailable
from belvedere.experiments.runs import Side, layout_of
from belvedere.experiments.where import boxes_of, model_name
from belvedere.pictures import open_picture

if TYPE_CHECKING:
    from PIL.Image import Image

    from belvedere.experiments.columns import Columns
    from belvedere.standardized import StandardizedTransformer

__all__ = [
    "Asked",
    "Spans",
    "by_token",
    "checked_layers",
    "checked_outline",
    "headed",
    "labels_of",
    "located",
    "made_by",
    "of",
    "shown_in",
    "spans_of",
    "spelled",
]

#: Neighbouring columns of one picture: the first, the one behind the last, and what they are.
Spans = tuple[tuple[int, int, str], ...]


def _print(image: Image) -> str:
    """What tells a picture from others, whatever file it came from."""
    return sha256(repr(image.size).encode() + image.convert("RGB").tobytes()).hexdigest()[:16]


def of(sides: Sequence[Side]) -> dict[str, Any]:
    """The fields of a result that say which pictures its inputs showed.

    Args:
        sides: The inputs, of which any one's picture will do: the clean and the corrupt run's.
    """
    each = [[_print(image) for image in side.shown] for side in sides]
    known = zip(*each, strict=True) if len({len(one) for one in each}) == 1 else ()
    return {"sizes": sides[0].sizes or (), "prints": tuple(tuple(dict.fromkeys(one)) for one in known)}


def located(model: StandardizedTransformer, sides: Sequence[Side], columns: Columns, *, tower: bool) -> dict[str, Any]:
    """The fields of a map that say what its columns are, where their positions lie, and what these are in the prompt.

    Args:
        model: The model.
        sides: The inputs, the first of which says where a position lies.
        columns: The columns.
        tower: Whether they count the tower's rows.
    """
    side = sides[0]
    places = sorted({number for group in columns.positions for number in group})
    try:
        boxes, images = _rows_of(model, side, places) if tower else boxes_of(model, side, tuple(places))
    except (InputError, Unavailable):
        # What cannot be located can be swept all the same.
        boxes, images = torch.full((len(places), 4), torch.nan, dtype=torch.float64), torch.full((len(places),), -1)
    texts = () if tower else by_token(model, side, places, images)
    found = {"places": tuple(places), "boxes": boxes.double(), "images": images, "texts": texts}
    return {**columns.labels, **found, **of(sides)}


def by_token(model: StandardizedTransformer, side: Side, places: Sequence[int], images: Tensor) -> tuple[str, ...]:
    """How the prompt's tokens are written, nothing for those of a picture; empty without a tokenizer."""
    if model.tokenizer is None:
        return ()
    ids = side.encoding["input_ids"][0, list(places)].tolist()
    return tuple(
        "" if image >= 0 else str(model.tokenizer.decode([token]))
        for token, image in zip(ids, images.tolist(), strict=True)
    )


def _rows_of(model: StandardizedTransformer, side: Side, places: list[int]) -> tuple[Tensor, Tensor]:
    rows = layout_of(model, side).patches
    return rows.source_box[places], rows.image[places]


def made_by(model: StandardizedTransformer, metric: str, **more: Any) -> dict[str, Any]:
    """The settings of a result: the model, the metric, and what else made it."""
    return {"model": model_name(model), "metric": metric, **more}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which picture of a result an overlay is about.

    Args:
        picture: The picture, opened.
        image: Its number among the input's pictures.
        count: How many these are.
        sized: Whether it has the size that the input's picture had, as far as that is known.
    """

    picture: Image
    image: int
    count: int
    sized: bool

    @property
    def name(self) -> str:
        """What the picture is called beside others."""
        return "the picture" if self.count == 1 else f"picture {self.image}"


def shown_in(
    picture: Any,
    image: int | None,
    *,
    images: Tensor | None,
    sizes: Sequence[tuple[int, int]],
    known: Sequence[Sequence[str]],
    resized: bool = False,
) -> Asked:
    """The picture that is to be drawn on, checked against those of the input.

    Args:
        picture: The picture, or where it is.
        image: Its number; by default it is recognised, or told by its size.
        images: The picture's number of each position; ``None`` where that is not known.
        sizes: Width and height of each of the input's pictures; empty where that is not known.
        known: What tells each of them from others.
        resized: Whether it may have another size.

    Raises:
        InputError: It is none of the input's pictures, or another one, or may be several.
    """
    opened = open_picture(picture, 0)
    count = len(sizes) or (int(images.max()) + 1 if images is not None and len(images) else 0) or 1
    if image is not None and not 0 <= image < count:
        raise InputError(f"there is no picture {image}; the input shows {count}, counted from 0")
    mark = _print(opened)
    own = [number for number, marks in enumerate(known) if mark in marks]
    if image is not None and own and image not in own:
        raise InputError(
            f"this is picture {own[0]} of the input, and image={image} was asked for; pass image={own[0]}, or the "
            "other picture"
        )
    fits = [number for number, size in enumerate(sizes) if tuple(size) == opened.size]
    if sizes and not resized and (image not in fits if image is not None else not fits):
        wide, high = opened.size
        wanted = ", ".join(f"{w} x {h}" for w, h in (sizes if image is None else [sizes[image]]))
        raise InputError(
            f"the picture is {wide} x {high} pixels, and the input showed {wanted}; pass the picture as the model was "
            "given it, before any resizing"
        )
    if image is None:
        candidates = own or fits or list(range(count))
        if len(candidates) > 1:
            raise InputError(
                f"the picture may be {' or '.join(map(str, candidates))} of the input's {count}; say which by image="
            )
        image = candidates[0]
    return Asked(picture=opened, image=image, count=count, sized=not sizes or image in fits)


def checked_outline(outline: Any) -> tuple[float, float, float, float] | None:
    """A box to draw a line around.

    Raises:
        InputError: It has not four edges, or ends before it begins.
    """
    if outline is None:
        return None
    held = torch.as_tensor(outline, dtype=torch.float64).flatten().tolist()
    if len(held) != 4 or not (held[0] < held[2] and held[1] < held[3]):
        raise InputError(f"outline={outline!r} is no box; pass (left, top, right, bottom) in the picture's pixels")
    left, top, right, bottom = held
    return left, top, right, bottom


def checked_layers(layers: Iterable[int] | int | None, own: Sequence[int]) -> list[int]:
    """Some of the blocks of a result, as its rows.

    Raises:
        InputError: It has no such block, or none is asked for.
    """
    wanted = list(own) if layers is None else [layers] if isinstance(layers, int) else [int(one) for one in layers]
    missing = [layer for layer in wanted if layer not in own]
    if missing or not wanted:
        what = f"there is no block {missing[0]} in this result" if missing else "`layers` is empty"
        raise InputError(f"{what}; it has {', '.join(map(str, own))}")
    return [list(own).index(layer) for layer in wanted]


def spans_of(images: Tensor, what: str) -> Spans:
    """The neighbours of one picture among some columns."""
    held, found, start = images.tolist(), [], 0
    for stop in range(1, len(held) + 1):
        if stop == len(held) or held[stop] != held[start]:
            if held[start] >= 0 and stop - start > 1:
                found.append((start, stop, f"image {held[start]}: {stop - start} {what}"))
            start = stop
    return tuple(found)


def labels_of(positions: Sequence[int], words: Sequence[str]) -> list[str]:
    """What single positions are called on an axis: their number and, where it is known, their token."""
    said = words or [""] * len(positions)
    return [f"{place} {spelled(word)}" if word else str(place) for place, word in zip(positions, said, strict=True)]


def spelled(word: str) -> str:
    """A token with what would not show written out."""
    shown = word.strip() or repr(word)[1:-1]
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


def headed(kind: str, value: str, settings: Any, joint: str = "of") -> str:
    """The heading of a figure: the experiment, the value, the metric and the model."""
    metric = settings.get("metric")
    model = short_name(str(settings.get("model", "")))
    about = ", ".join(str(one) for one in (metric, model) if one)
    return f"{kind} {joint} {value}" + (f"\n{about}" if about else "")


def short_name(model: str) -> str:
    """The last part of a model's name, of a snapshot in the cache the repository's."""
    for part in PurePath(model).parts:
        if part.startswith("models--"):
            return part.rpartition("--")[2]
    return PurePath(model).name
