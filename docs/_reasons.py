"""Every reason that a checkpoint of the zoo gives for what it lacks, with the values and the types that give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import _hooks
import _pictures

from belvedere.components.standard import Note
from belvedere.errors import Unavailable
from belvedere.standardized import StandardizedTransformer
from belvedere.testing import ROWS

#: Sizes that are no one number on some checkpoints.
SIZES = ("num_layers", "vision_hidden_size", "num_heads", "head_dim", "intermediate_size", "patch_size", "image_size")
#: How many types stand in a line.
FEW = 8
#: What stands in a reason in the place of a model type's own name.
TYPE = "*type*"


@cache
def models() -> list[tuple[str, str, StandardizedTransformer]]:
    """What a checkpoint is called, its own type, and its model: the zoo, and two loads that have no tower."""
    found = []
    for name, row in ROWS.items():
        model = _pictures.placed(name)[0] if row.tower else StandardizedTransformer.from_config(row.config())
        found.append((model.family.wrapper or model.family.text, model))
    alone = StandardizedTransformer.from_config(ROWS["qwen3_5"].config(), task="text-generation")
    bare = StandardizedTransformer.from_config(type(ROWS["gemma4"].config())(vision_config=None))
    return [
        *((own, own, model) for own, model in found),
        (f"{alone.family.wrapper} for text-generation", str(alone.family.wrapper), alone),
        (f"{bare.family.wrapper} without a tower", str(bare.family.wrapper), bare),
    ]


def refused(support: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Value and reason, the reasons of single blocks among them."""
    for value, reason in support.items():
        given = reason.values() if isinstance(reason, Mapping) else [reason]
        yield from ((value, one) for one in dict.fromkeys(given) if one)


def of_values() -> Iterator[tuple[str, str, str]]:
    """Reason, value and checkpoint."""
    for called, own, model in models():
        if (reason := model.vision.no_images()) is not None:
            yield reason.replace(own, TYPE), "vision, every value", called
        for value, reason in refused(model.support()):
            yield reason.replace(own, TYPE), f"`{value}`", called


def of_notes() -> Iterator[tuple[str, str, str]]:
    """What is said of values that read although nothing depends on them."""
    for called, _, model in models():
        for value, note in refused(model.support(notes=True)):
            if isinstance(note, Note):
                yield str(note), f"`{value}`", called


def of_sizes() -> Iterator[tuple[str, str, str]]:
    """Why a size is not one number."""
    for called, own, model in models():
        if model.vision.no_images() is None:
            for size in SIZES:
                try:
                    getattr(model.vision, size)
                except Unavailable as refusal:
                    yield refusal.reason.replace(own, TYPE), f"`vision.{size}`", called


def gathered(found: Iterator[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Each reason once, with what it is given for and who gives it."""
    reasons: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for reason, value, called in found:
        values, types = reasons.setdefault(reason, ({}, {}))
        values[value], types[called] = None, None
    return [(reason, ", ".join(values), named(types)) for reason, (values, types) in sorted(reasons.items())]


def named(types: Mapping[str, None]) -> str:
    """The model types in code; where they are nearly all, those that are not; where they are many, to be unfolded."""
    every = {called for called, _, _ in models()}
    without = sorted(every - set(types))
    if len(without) < FEW:
        return f"all of the zoo but {codes(without)}" if without else "all of the zoo"
    listed = codes(sorted(types))
    return listed if len(types) <= FEW else f"<details><summary>{len(types)} types</summary>{listed}</details>"


def codes(names: list[str]) -> str:
    """Names in code, one after the other."""
    return ", ".join(f"`{name}`" for name in names)


def reasons(of: str) -> str:
    """The reasons that are given for values, of values that nothing reads, or for sizes."""
    head = {"values": "reason", "notes": "what is said", "sizes": "reason"}[of]
    found = {"values": of_values, "notes": of_notes, "sizes": of_sizes}[of]()
    return _hooks.table((head, of if of != "notes" else "values", "in"), gathered(found))
