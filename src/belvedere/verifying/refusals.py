"""Clause 7: what `support()` says reads, reads, and what it refuses raises that reason before the model runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from belvedere.components import NoVision
from belvedere.errors import InputError, Unavailable
from belvedere.verifying.bench import Bench
from belvedere.verifying.clause import Answer, answered, counted
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["support_agrees"]


class Enough(Exception):  # noqa: N818 - it is no error, it ends a trace before the model runs
    """All that is refused has been asked for."""


def support_agrees(bench: Bench) -> Answer:
    """Every row of `support()` against a read, and every refusal against the reason in its row."""
    support = bench.model.support()
    said = {id(one): _said(support, one) for one in bench.places}
    told = {key for key, _ in said.values()}
    differences = [
        Difference(where=key, what="support() has a row that is no value") for key in support if key not in told
    ]
    absent = [one for one in bench.places if said[id(one)][1] is not None]
    present = [one for one in bench.places if said[id(one)][1] is None]
    differences += _refused(bench, absent, {id(one): str(said[id(one)][1]) for one in absent})
    made = [one for one in present if one in bench.made or one.reason is not None]
    differences += _read(bench, made)
    checked = f"{counted(len(made), 'value')} read, {len(absent)} refused with their reason before the model ran"
    if isinstance(bench.model.vision, NoVision):
        checked += f"; vision: {bench.model.vision.no_images()}"
    return answered(checked, differences)


def _said(support: Mapping[str, Any], place: Place) -> tuple[str, str | None]:
    """A value's row of `support()`, and what that says of it; a row that is missing says so."""
    block = place.block
    if block is None:
        key = place.path
        return key, support.get(key, f"support() has no row {key}")
    above = block.name.rpartition("[")[0]
    key = f"{above}.{place.name}"
    row = support.get(key, f"support() has no row {key}")
    return key, row.get(block.number) if isinstance(row, Mapping) else row


def _refused(bench: Bench, places: list[Place], reasons: Mapping[int, str]) -> list[Difference]:
    """Those of some values whose read does not raise the reason, or raises it too late."""
    found: list[Difference] = []

    def ask() -> None:
        for place in places:
            try:
                place.read()
            except Unavailable as refusal:
                if (refusal.path, refusal.reason) != (place.path, reasons[id(place)]):
                    what = f"support() says {reasons[id(place)]!r}, and a read raises {str(refusal)!r}"
                    found.append(Difference(where=place.path, what=what))
                if ran:
                    found.append(Difference(where=place.path, what="was refused when the model had begun to run"))
            else:
                what = f"reads, although support() says {reasons[id(place)]!r}"
                found.append(Difference(where=place.path, what=what))
        raise Enough

    with _noting_runs(bench) as ran, suppress(Enough):
        bench.trace(ask)
    return found


@contextmanager
def _noting_runs(bench: Bench) -> Iterator[list[int]]:
    """Notes when the model begins to run."""
    ran: list[int] = []
    handle = bench.model._module.register_forward_pre_hook(lambda *_: ran.append(1))
    try:
        yield ran
    finally:
        handle.remove()


def _read(bench: Bench, places: list[Place]) -> list[Difference]:
    """Those of some values that do not read, in one trace up to the first, and each by itself from there on."""
    found: list[Difference] = []

    def read() -> None:
        for place in places:
            if place.read() is None:
                raise InputError(f"{place.path} is None")

    try:
        bench.trace(read)
    except Exception:
        for place in places:
            found += _one(bench, place)
    return found


def _one(bench: Bench, place: Place) -> list[Difference]:
    try:
        held = bench.trace(place.read)
    except Exception as error:
        what = f"support() says that it reads, and a read raises {type(error).__name__}: {error}"
        return [Difference(where=place.path, what=what)]
    return [] if held is not None else [Difference(where=place.path, what="reads as None")]
