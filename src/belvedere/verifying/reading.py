"""Clause 3: reading every value changes nothing."""

from __future__ import annotations

from belvedere.verifying.bench import Bench, first_that
from belvedere.verifying.clause import Answer, answered, counted
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place

__all__ = ["reading_everything"]


def reading_everything(bench: Bench) -> Answer:
    """The logits of a trace that reads all that there is against a plain forward's."""
    places = bench.made

    def read(count: int) -> bool:
        return not bench.same(bench.traced_logits(lambda: _read(places[:count])))

    checked = f"{counted(len(places), 'value')} in one trace; logits against the plain forward's, {bench.exactly}"
    if not read(len(places)):
        return answered(checked, [], _unread(bench))
    if read(0):
        what = "the logits of a trace that reads nothing else are not the plain forward's"
        by = bench.apart(bench.traced_logits(lambda: None))
        return answered(checked, [Difference(where="logits", what=what, by=by, tolerance=4 * bench.noise)])
    guilty = first_that(len(places), read)
    by = bench.apart(bench.traced_logits(lambda: _read(places[: guilty + 1])))
    what = "reading it changes the logits"
    return answered(checked, [Difference(where=places[guilty].path, what=what, by=by, tolerance=4 * bench.noise)])


def _read(places: list[Place]) -> None:
    for place in places:
        place.read()


def _unread(bench: Bench) -> list[str]:
    names = dict.fromkeys(one.found.name for one in bench.unmade)
    return [f"this input does not make {', '.join(map(str, names))}"] if names else []
