"""Clause 4: a value written back unchanged changes nothing, and another value changes the logits."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from belvedere.verifying.bench import Bench, first_that
from belvedere.verifying.clause import Answer, answered, counted, listed
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place, blocks_of, some

__all__ = ["writing"]

#: What the model is called with: another prompt, and not another value of this one.
INPUTS = ("input_ids", "attention_mask")


def writing(bench: Bench) -> Answer:
    """All values written back in one trace; and a few written anew, each in traces of its own, by both ways."""
    places = [one for one in bench.made if not one.found.read_only and one.name not in INPUTS]
    tensors = bench.trace(lambda: [one for one in places if isinstance(one.read(), Tensor)])
    chosen = _chosen(bench, tensors)
    differences = _unchanged(bench, tensors)
    for place in chosen:
        differences += _anew(bench, place)
    run = {id(one.block): one.block for one in chosen if one.block is not None}
    checked = (
        f"{counted(len(tensors), 'value')} written back in one trace, {bench.exactly}; {len(chosen)} of them written "
        f"anew, in place and by assignment, on {listed([one for one in run.values() if one is not None])}"
    )
    lists = dict.fromkeys(one.name for one in places if one not in tensors)
    notes = [f"not written, as each is several tensors: {', '.join(lists)}"] if lists else []
    return answered(checked, differences, notes)


def _chosen(bench: Bench, places: list[Place]) -> list[Place]:
    """Each kind of value once where blocks are many, taking turns between them; all of few blocks."""
    stacks = [blocks_of(bench.model.vision), list(bench.model.layers)]
    turns = {
        id(block): (number, len(chosen))
        for one in stacks
        if (chosen := some(one))
        for number, block in enumerate(chosen)
    }
    few = {id(block) for one in stacks if len(one) <= len(some(one)) for block in one}
    kinds: dict[Any, list[Place]] = {}
    found = []
    for place in places:
        if place.block is None or id(place.block) in few:
            found.append(place)
        elif id(place.block) in turns:
            kinds.setdefault((type(place.host), place.name), []).append(place)
    found += [each[number % len(each)] for number, each in enumerate(kinds.values())]
    order = {id(one): number for number, one in enumerate(places)}
    return sorted(found, key=lambda one: order[id(one)])


def _unchanged(bench: Bench, places: list[Place]) -> list[Difference]:
    def back(count: int) -> bool:
        return not bench.same(bench.traced_logits(lambda: _back(places[:count])))

    if not back(len(places)) or back(0):
        # What differs without any write is the third clause's to say.
        return []
    guilty = first_that(len(places), back)
    by = bench.apart(bench.traced_logits(lambda: _back(places[: guilty + 1])))
    what = "written back unchanged, it changes the logits"
    return [Difference(where=places[guilty].path, what=what, by=by, tolerance=4 * bench.noise)]


def _anew(bench: Bench, place: Place) -> list[Difference]:
    """A value with other numbers in it, assigned and in place: the logits change, unless nothing reads it."""
    idle = place.host.remark(place.name)
    assigned = bench.same(bench.traced_logits(lambda: place.write(_other(place.read()))))
    if idle is not None:
        what = f"an assignment changes the logits, and support(notes=True) says: {idle}"
        return [] if assigned else [Difference(where=place.path, what=what)]
    differences = [Difference(where=place.path, what="an assignment does not reach the logits")] if assigned else []
    if bench.same(bench.traced_logits(lambda: _in_place(place))):
        differences.append(Difference(where=place.path, what="an edit in place does not reach the logits"))
    return differences


def _back(places: list[Place]) -> None:
    for place in places:
        place.write(place.read().clone())


def _in_place(place: Place) -> None:
    held = place.read()
    held.copy_(_other(held))


def _other(held: Tensor) -> Tensor:
    """Another value of the same kind: other numbers, or the same integers elsewhere."""
    return held * 0.5 + 0.25 if held.is_floating_point() else held.roll(1, dims=-1)
