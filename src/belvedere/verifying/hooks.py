"""Clause 5: a value is what a PyTorch hook sees in a plain forward, and both paths of an envoy are one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from belvedere.components.layer import Block
from belvedere.components.pattern import PatternValue
from belvedere.verifying import raw
from belvedere.verifying.bench import Bench, logits_of
from belvedere.verifying.clause import Answer, answered, counted
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place, blocks_of, parts_of

__all__ = ["hooked"]

Take = Callable[[Any], Tensor]
#: Layouts in which a value keeps the order of its elements, so that the order is compared too.
IN_ORDER = ("Residual", "Patches", "Logits", "TokenIds", "AttentionMask", "ImageFeatures")


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Where a plain forward has a value: what a module is called with, or what it returns, and which part of that."""

    module: torch.nn.Module
    point: str
    take: Take


def hooked(bench: Bench) -> Answer:
    """Every value that is at a module's door or at the attention interface, by the prints of its bits."""
    truths = {id(one): truth for one in bench.made if (truth := _truth(bench, one)) is not None}
    with raw.listening() as heard, _watching(truths, raw.fingerprint) as seen:
        bench.plain()
    differences, compared, ours = _paths(bench), 0, {}
    wanted = [one for one in bench.made if id(one) in seen or _key(one) in heard]

    def read() -> None:
        for place in wanted:
            ours[id(place)] = _print(place.read())

    bench.trace(read)
    for place in wanted:
        true = heard[_key(place)] if _key(place) in heard else seen[id(place)]
        compared += 1
        if not _equal(place, ours[id(place)], true):
            differences.append(_difference(bench, place, truths.get(id(place))))
    rest = dict.fromkeys(one.name for one in bench.made if one not in wanted)
    notes = [f"made inside of a forward or recomputed, so that no hook sees them: {', '.join(rest)}"] if rest else []
    return answered(f"{counted(compared, 'value')}, bit for bit, and the paths of every envoy", differences, notes)


def _key(place: Place) -> tuple[int, str]:
    """A value of the attention interface, as `raw.listening` names it."""
    return id(place.host._module), place.name


def _truth(bench: Bench, place: Place) -> Truth | None:
    """Where a hook sees a value: by what its name means where that is the same on every model, else by its place."""
    model, found, host = bench.model, place.found, place.host
    if host is model and place.name == "logits":
        return Truth(module=model._module, point="output", take=logits_of)
    if host is model and place.name == "token_embeddings":
        return Truth(module=model._module.get_input_embeddings(), point="output", take=raw.first)
    if isinstance(host, Block) and place.name == "layer_input":
        return Truth(module=host._module, point="input", take=lambda call: raw.entering(*call))
    if isinstance(host, Block) and place.name == "layer_output":
        return Truth(module=host._module, point="output", take=raw.first)
    if found.read_only or isinstance(found, PatternValue):
        return None
    where, _, point = found.location(host).rpartition(".")
    if ".source." in where:
        return None
    module = model._module if where == model.path else model.get(where.removeprefix(f"{model.path}."))._module
    return Truth(module=module, point=point, take=partial(_part, place))


def _part(place: Place, served: Any) -> Tensor:
    held: Tensor = place.found.part(place.host).get(served)
    return held


def _watching(truths: dict[int, Truth], keep: Callable[[Tensor], Any]) -> Any:
    points: dict[str, dict[Hashable, Any]] = {"input": {}, "output": {}}
    for key, truth in truths.items():
        points[truth.point][key] = truth.module, truth.take
    return raw.watching(points["input"], points["output"], keep)


def _print(held: Any) -> raw.Print | None:
    """A value's print; of several tensors together, where it is a list."""
    if isinstance(held, Tensor):
        return raw.fingerprint(held)
    prints = [raw.fingerprint(one) for one in held]
    return sum(prints[1:], prints[0]) if prints else None


def _equal(place: Place, ours: raw.Print | None, truth: raw.Print) -> bool:
    if ours is None:
        return truth.count == 0
    same = (ours.count, ours.elements) == (truth.count, truth.elements)
    return same and (place.found.layout not in IN_ORDER or 0 in (ours.order, truth.order) or ours.order == truth.order)


def _difference(bench: Bench, place: Place, truth: Truth | None) -> Difference:
    """How far a value is from what a hook sees, by a forward of each that keeps it."""
    what = "a PyTorch hook on a plain forward sees something else"
    if truth is None:
        return Difference(where=place.path, what="the attention interface is called with something else")
    ours = bench.trace(lambda: place.read())
    with _watching({0: truth}, torch.clone) as seen:
        bench.plain()
    if not isinstance(ours, Tensor) or ours.numel() != seen[0].numel() or not ours.is_floating_point():
        return Difference(where=place.path, what=what)
    by = float((ours.float().flatten() - seen[0].float().flatten()).abs().amax())
    return Difference(where=place.path, what=what, by=by, tolerance=0.0)


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
