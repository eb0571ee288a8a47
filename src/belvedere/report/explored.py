"""An exploration as one page that needs nothing beside itself, however long the prompt.

Numbers travel as bytes in base64. A row of attention (one token, block and head) is written as 255 steps of its own
largest value, so it is off by at most 1/510 of that value; probabilities of words are off by at most 1/131070; effects
are written as they are, in single precision. Where all rows would be more than a page may hold, the page keeps less and
says so.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import belvedere
from belvedere.components.standard import blocks
from belvedere.experiments import LensResult, PatchResult
from belvedere.report.exploration import Exploration
from belvedere.report.looked import Looks
from belvedere.report.page import page
from belvedere.report.sheets import Sheet

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["explorer"]

#: Characters that a page may have; each is a byte, or few are more.
LIMIT = 4_800_000
#: Pixels of a picture's longer side, and the bytes that all pictures may have.
SIDE, PICTURES = 1024, 600_000
#: The same of what image tokens read as.
WORDS = 1_200_000
#: Pixels by which a box may reach out of its picture without being beyond it.
NEAR = 0.5


def explorer(found: Exploration) -> str:
    """The page of an exploration.

    Args:
        found: What `explore` gathered.
    """
    data = {
        "answer": {"text": found.answer.text, "probability": found.answer.probability},
        "words": [[word.position, word.text, word.image] for word in found.words],
        "blocks": found.blocks,
        "cells": found.cells,
        "pictures": _pictures(found.pictures),
        "sheets": [_sheet(sheet, found.pictures) for sheet in found.sheets],
        "lens": _lens(found.lens),
        "effects": _effects(found.effects),
    }
    patched = "" if isinstance(found.effects, str) else blocks(list(found.effects.layers))
    about = {"title": _title(found), "found": found, "patched": patched, "version": belvedere.__version__}
    empty = page("explore.html.j2", data={**data, "looks": {}}, kept=(), **about)
    looks, kept = _looks(found.looks, LIMIT - len(empty.encode()))
    return page("explore.html.j2", data={**data, "looks": looks}, kept=kept, **about)


def _title(found: Exploration) -> str:
    name = found.model.rstrip("/").rpartition("/")[2]
    return f"{name}: what it sees where"


def _base64(held: Any) -> str:
    return b64encode(np.ascontiguousarray(held).tobytes()).decode()


def _floats(held: Tensor) -> str:
    return _base64(held.float().contiguous().cpu().numpy().astype("<f4"))


# Pictures and where their cells lie


def _pictures(pictures: Sequence[Image]) -> list[dict[str, Any]]:
    """Each picture as an address, with its own size; smaller and smaller until all fit."""
    side = SIDE
    while True:
        written = [_written(picture, side) for picture in pictures]
        if sum(map(len, written)) <= PICTURES or side < 64:
            break
        side = side * 3 // 4
    return [
        {"src": address, "width": picture.width, "height": picture.height}
        for address, picture in zip(written, pictures, strict=True)
    ]


def _written(picture: Image, side: int) -> str:
    """A picture as an address: PNG, or JPEG where that is smaller."""
    small = picture.convert("RGB")
    small.thumbnail((side, side))
    found = []
    for kind, options in (("png", {}), ("jpeg", {"quality": 85})):
        held = BytesIO()
        small.save(held, kind, **options)
        found.append(f"data:image/{kind};base64,{b64encode(held.getvalue()).decode()}")
    return min(found, key=len)


def _sheet(sheet: Sheet, pictures: Sequence[Image]) -> dict[str, Any]:
    """A sheet, with the part of the plane that holds its picture and every cell."""
    width, height = pictures[sheet.image].size if sheet.over else (0, 0)
    low, high = sheet.boxes[:, :2].amin(0).tolist(), sheet.boxes[:, 2:].amax(0).tolist()
    view = [min(0, low[0] + NEAR), min(0, low[1] + NEAR), max(width, high[0] - NEAR), max(height, high[1] - NEAR)]
    beyond = sheet.over and view != [0, 0, width, height]
    return {
        "title": sheet.title,
        "image": sheet.image,
        "over": sheet.over,
        "note": "places beyond the picture's edge show what the processor pads it with" if beyond else sheet.note,
        "view": view if sheet.over else [0, 0, *high],
        "cells": sheet.cells.tolist(),
        "boxes": [[round(edge, 1) for edge in box] for box in sheet.boxes.tolist()],
    }


# What image tokens read as, and what they change


def _lens(held: LensResult | str) -> dict[str, Any]:
    """What places read as: fewer words, and then fewer blocks, until it fits."""
    if isinstance(held, str):
        return {"reason": held}
    top, step = held.tokens.shape[-1], 1
    while len(json.dumps(written := _read(held, top, step))) > WORDS and step < len(held.layers):
        top, step = max(1, top - 1), step * (2 if top == 1 else 1)
    return written


def _read(held: LensResult, top: int, step: int) -> dict[str, Any]:
    tokens = held.tokens[::step, :, :top]
    numbers, index = torch.unique(tokens, return_inverse=True)
    wide = len(numbers) >= 2**16
    return {
        "layers": list(held.layers[::step]),
        "top": top,
        "words": [held.words[str(number)] for number in numbers.tolist()],
        "wide": wide,
        "tokens": _base64(index.numpy().astype("<u4" if wide else "<u2")),
        "probabilities": _shares(held.probabilities[::step, :, :top]),
        "watched": _shares(held.watched[::step, :, 0]),
    }


def _shares(held: Tensor) -> str:
    """Numbers from 0 to 1 in two bytes each."""
    return _base64((held.double().clamp(0, 1) * 65535).round().numpy().astype("<u2"))


def _effects(held: PatchResult | str) -> dict[str, Any]:
    if isinstance(held, str):
        return {"reason": held}
    return {
        "layers": list(held.layers),
        "values": _floats(held.effects),
        "metric": str(held.settings["metric"]),
        "clean": held.clean,
        "corrupt": held.corrupt,
    }


# Who attends to them


@dataclass(frozen=True, kw_only=True)
class Kept:
    """As much of the attention as a page has room for.

    Args:
        answer: By block, ``[heads, cells]``.
        tokens: By block, ``[queries, heads, cells]``.
        queries: The positions of the tokens.
        notes: What is left out, in words.
    """

    answer: Mapping[int, Tensor]
    tokens: Mapping[int, Tensor]
    queries: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The characters that it takes: a byte for each number and four for each row, in base64."""
        rows = [*self.answer.values(), *self.tokens.values()]
        return sum(held.numel() + 4 * (held.numel() // max(held.shape[-1], 1)) for held in rows) * 4 // 3 + 64

    def means(self) -> Kept:
        """The same with the mean over heads of the prompt's tokens."""
        return Kept(
            answer=self.answer,
            tokens={block: held.mean(1, keepdim=True) for block, held in self.tokens.items()},
            queries=self.queries,
            notes=self.notes,
        )


def _looks(looks: Looks | str, room: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    if isinstance(looks, str):
        return {"reason": looks}, ()
    kept = _kept(looks, room)
    numbers = list(kept.answer)
    written = {
        "blocks": [[block, kept.answer[block].shape[0], kept.tokens[block].shape[1]] for block in numbers],
        "reasons": {str(block): reason for block, reason in looks.lacking.items()},
        "queries": list(kept.queries),
        "answer": _rows(kept.answer[block] for block in numbers),
        "tokens": _rows(kept.tokens[block] for block in numbers),
    }
    return written, kept.notes


def _kept(looks: Looks, room: int) -> Kept:
    """The most that fits: every head; else means for the prompt's tokens; else fewer of them; else means for all."""
    whole = Kept(answer=looks.answer, tokens=looks.tokens, queries=looks.queries)
    means = "of the prompt's tokens the mean over heads, of the answer every head"
    if looks.by_head and whole.size <= room:
        return whole
    if not looks.by_head or any(held.shape[1] > 1 for held in looks.tokens.values()):
        whole = Kept(answer=looks.answer, tokens=whole.means().tokens, queries=looks.queries, notes=(means,))
    if whole.size <= room:
        return whole
    heads = Kept(answer=looks.answer, tokens={block: held[:0] for block, held in whole.tokens.items()}, queries=())
    answer, notes = looks.answer, (means,)
    if heads.size > room:
        answer = {block: held.mean(0, keepdim=True) for block, held in looks.answer.items()}
        notes = ("the mean over heads, of the answer too",)
    return _latest(whole, answer, notes, room)


def _latest(whole: Kept, answer: Mapping[int, Tensor], notes: tuple[str, ...], room: int) -> Kept:
    """The tokens nearest to the answer, as many as fit."""
    bare = Kept(answer=answer, tokens={block: held[:0] for block, held in whole.tokens.items()}, queries=())
    each = max(1, (whole.size - Kept(answer=whole.answer, tokens=bare.tokens, queries=()).size) // len(whole.queries))
    count = min(len(whole.queries), max(0, (room - bare.size) // (each + 1)))
    first = len(whole.queries) - count
    left = f"the last {count} of the {len(whole.queries)} tokens that attend to a picture"
    return Kept(
        answer=answer,
        tokens={block: held[first:] for block, held in whole.tokens.items()},
        queries=whole.queries[first:],
        notes=(*notes, left) if first else notes,
    )


def _rows(held: Iterable[Tensor]) -> dict[str, str]:
    """Rows of numbers that are not negative: each as 255 steps of its largest."""
    flat = [one.reshape(-1, one.shape[-1]).float() for one in held]
    most = [one.amax(-1) if one.numel() else one.new_zeros(len(one)) for one in flat]
    steps = [
        (one / limit.clamp_min(torch.finfo(torch.float32).tiny)[:, None] * 255).round().clamp(0, 255).to(torch.uint8)
        for one, limit in zip(flat, most, strict=True)
    ]
    return {
        "steps": b64encode(b"".join(one.numpy().tobytes() for one in steps)).decode(),
        "most": b64encode(b"".join(one.numpy().astype("<f4").tobytes() for one in most)).decode(),
    }
