"""Clause 5: a value is what a PyTorch hook sees in a plain forward, and both paths of an envoy are one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from belvedere.components.attention import beside_each_other
from belvedere.components.layer import Block
from belvedere.components.pattern import PatternValue
from belvedere.components.segments import heads_side_by_side
from belvedere.components.vision import from_rows
from belvedere.descriptors import as_edited, as_held, heads_first
from belvedere.verifying import raw
from belvedere.verifying.bench import Bench, logits_of
from belvedere.verifying.clause import Answer, answered, counted
from belvedere.verifying.derived import BY_HAND, by_hand
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place, blocks_of, parts_of

__all__ = ["hooked"]

Prints = tuple[raw.Print, ...]
#: Layouts in which a value keeps the order of its elements, so that the order is compared too.
IN_ORDER = ("Residual", "Patches", "Logits", "TokenIds", "AttentionMask")
#: The ways back of values that are all that their place holds, in another shape or order of axes.
REORDERED = (None, as_edited, as_held, beside_each_other, from_rows, heads_first, heads_side_by_side)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Where a plain forward has a value.

    Args:
        module: A module.
        point: ``input`` or ``output``, what it is called with or returns; ``inside``, what passes its operations.
        take: Which part of that it is.
    """

    module: torch.nn.Module
    point: str
    take: Callable[[Any], Any] = raw.first


def hooked(bench: Bench) -> Answer:
    """Every value that plain PyTorch can see, by the prints of its bits; the others that follow from these, by hand."""
    truths = {id(one): truth for one in bench.made if (truth := _truth(bench, one)) is not None}
    wanted = [one for one in bench.made if id(one) in truths]
    derived = [one for one in bench.made if one.name in BY_HAND]
    ours: dict[int, Prints] = {}

    def read() -> None:
        for place in wanted:
            ours[id(place)] = raw.prints(place.read())

    bench.trace(read)
    with raw.listening() as heard, _watching(truths, raw.prints) as seen:
        bench.plain()
    inside = _inside([one for one in wanted if _key(one) not in heard], truths, ours)
    with raw.Passing(inside) as passing:
        bench.plain()
    differences = _paths(bench) + by_hand(bench, derived)
    for place in wanted:
        truth, key = truths[id(place)], _key(place)
        if key in heard:
            equal = _sum(ours[id(place)]) == (heard[key].count, heard[key].elements)
        elif truth.point == "inside":
            equal = all((one.count, one.elements) in passing.seen[truth.module] for one in ours[id(place)])
        else:
            equal = id(place) in seen and _equal(place, ours[id(place)], seen[id(place)])
        if not equal:
            differences.append(_difference(bench, place, truth, "the attention interface" if key in heard else ""))
    rest = dict.fromkeys(_short(one) for one in bench.made if one not in wanted and one not in derived)
    notes = [f"recomputed, cut or picked from what a plain forward has, and so not compared: {', '.join(rest)}"]
    checked = f"{counted(len(wanted) + len(derived), 'value')}, bit for bit, and the paths of every envoy"
    return answered(checked, differences, notes if rest else [])


def _truth(bench: Bench, place: Place) -> Truth | None:
    """Where plain PyTorch sees a value: by what its name means, where every model means the same by it."""
    model, found, host = bench.model, place.found, place.host
    if host is model and place.name == "logits":
        return Truth(module=model._module, point="output", take=logits_of)
    if host is model and place.name == "token_embeddings":
        return Truth(module=model._module.get_input_embeddings(), point="output")
    if isinstance(host, Block) and place.name == "layer_input":
        return Truth(module=host._module, point="input", take=lambda call: raw.entering(*call))
    if isinstance(host, Block) and place.name == "layer_output":
        return Truth(module=host._module, point="output")
    if found.read_only or isinstance(found, PatternValue) or found._restore not in REORDERED:
        return None
    where, _, point = found.location(host).rpartition(".")
    native, inside, _ = where.partition(".source.")
    module = model._module if native == model.path else model.get(native.removeprefix(f"{model.path}."))._module
    return Truth(module=module, point="inside" if inside else point, take=partial(_part, place))


def _part(place: Place, served: Any) -> Any:
    held = place.found.part(place.host).get(served)
    # A convolution's map has a row for each patch once its two sides are one axis and the width is the last.
    is_map = place.name == "patch_embeddings" and held.ndim == 4
    return held.flatten(2).transpose(1, 2) if is_map else held


def _key(place: Place) -> tuple[int, str]:
    """A value as `raw.listening` names those that pass the attention interface."""
    return id(place.host._module), place.name


def _inside(
    places: list[Place], truths: Mapping[int, Truth], ours: Mapping[int, Prints]
) -> dict[torch.nn.Module, set[int]]:
    """The sizes of those values that are made inside of each module's forward."""
    found: dict[torch.nn.Module, set[int]] = {}
    for place in places:
        truth = truths[id(place)]
        if truth.point == "inside":
            found.setdefault(truth.module, set()).update(one.count for one in ours[id(place)])
    return found


def _watching(truths: Mapping[int, Truth], keep: Callable[[Any], Any]) -> Any:
    points: dict[str, dict[Hashable, Any]] = {"input": {}, "output": {}, "inside": {}}
    for key, truth in truths.items():
        points[truth.point][key] = truth.module, truth.take
    return raw.watching(points["input"], points["output"], keep)


def _sum(made: Prints) -> tuple[int, int]:
    total = sum(made[1:], made[0]) if made else raw.Print(0, 0, 0)
    return total.count, total.elements


def _equal(place: Place, ours: Prints, truth: Prints) -> bool:
    in_order = place.found.layout in IN_ORDER
    return len(ours) == len(truth) and all(
        (one.count, one.elements) == (true.count, true.elements) and (not in_order or one.order == true.order)
        for one, true in zip(ours, truth, strict=True)
    )


def _difference(bench: Bench, place: Place, truth: Truth, other: str) -> Difference:
    """How far a value is from what a hook sees, by a forward of each that keeps it."""
    if other or truth.point == "inside":
        inside = f"no operation of {type(truth.module).__name__}'s plain forward has these numbers"
        return Difference(where=place.path, what=f"{other} has other numbers" if other else inside)
    what = "a PyTorch hook on a plain forward sees something else"
    ours = bench.trace(lambda: _kept(place.read()))
    with _watching({0: truth}, _kept) as seen:
        bench.plain()
    theirs = seen.get(0)
    if ours is None or theirs is None or ours.numel() != theirs.numel():
        return Difference(where=place.path, what=what)
    by = float((ours.float().flatten() - theirs.float().flatten()).abs().amax())
    return Difference(where=place.path, what=what, by=by, tolerance=0.0)


def _kept(held: Any) -> Tensor | None:
    """A copy of a tensor of fractions; ``None`` for all else."""
    return held.clone() if isinstance(held, Tensor) and held.is_floating_point() else None


def _short(place: Place) -> str:
    """A value's path without the number of its block."""
    parts = place.path.split(".")
    return ".".join(one.partition("[")[0] for one in parts)


def _paths(bench: Bench) -> list[Difference]:
    """The envoys whose standard path, native path and module are not one."""
    model = bench.model
    found = []
    for block in (*blocks_of(model.vision), *model.layers):
        for host in (block, *parts_of(block)):
            native = host.path.removeprefix(f"{model.path}.")
            if model.get(native) is not host or model._module.get_submodule(native) is not host._module:
                found.append(Difference(where=host.name, what=f"is not the envoy of {native}"))
            if _at(model, host.name) is not host:
                found.append(Difference(where=host.name, what="is not the envoy at its standard path"))
    return found


def _at(model: Any, path: str) -> Any:
    """What stands at a standard path, such as ``vision.layers[3].self_attn``."""
    held = model
    for name in path.replace("[", ".").replace("]", "").split("."):
        held = held[int(name)] if name.isdigit() else getattr(held, name)
    return held
