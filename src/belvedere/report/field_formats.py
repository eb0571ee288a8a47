"""The field's matrix as a terminal, a Markdown file, a program or a browser reads it."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from belvedere.report.field import Field, ModelType
from belvedere.report.formats import listed_reasons, reasons_table
from belvedere.report.standing import Standing
from belvedere.report.writing import Form, line

__all__ = ["FIELD", "STATES", "tally"]

#: What the state of a model type means.
STATES = {
    "served": "served",
    "tiny": "shown by a tiny config",
    "text": "served as a text model",
    "missing": "not served",
}
STYLES = {"served": "green", "tiny": "cyan", "text": "cyan", "missing": "red"}
#: The sign of each kind of cell, and its words.
KINDS = {
    "served": ("\u2713", "served"),
    "recomputed": ("\u21bb", "recomputed"),
    "some": ("\u25d0", "on some blocks"),
    "lacking": ("\u2715", "lacking"),
}


def tally(one: ModelType) -> str:
    """How many values of a type stand how, in words."""
    return ", ".join(f"{count} {KINDS[kind][1]}" for kind, count in one.counts.items() if count)


def summary(field: Field) -> str:
    """How many types there are of each state."""
    states = [one.state for one in field.types]
    counted = "; ".join(f"{states.count(state)} {said}" for state, said in STATES.items() if state in states)
    return f"{len(field.types)} model types: {counted}. {len(field.values)} values."


def _renderable(field: Field) -> RenderableType:
    notes = tuple(dict.fromkeys(one.cause or one.note for one in field.types if one.cause or one.note))
    table = Table()
    for name in ("model type", "tower", "text", "projector", "values, or what is missing"):
        table.add_column(name, overflow="fold")
    for one in field.types:
        number = f" ({notes.index(one.cause or one.note) + 1})" if one.cause or one.note else ""
        cells = (one.name, one.parts["tower"], one.parts["text"], one.projector, f"{_in_short(one)}{number}")
        table.add_row(*map(Text, cells), style=STYLES[one.state])
    return Group(table, Text(summary(field)), *reasons_table(notes))


def _in_short(one: ModelType) -> str:
    """A type's values by kind, or the parts that have no entry."""
    if one.state == "missing":
        return f"no {', '.join(one.unknown) or 'such model'}"
    return tally(one) if one.state == "served" else f"{one.state}: {tally(one)}"


def _markdown(field: Field) -> list[str]:
    numbers = {reason: number for number, reason in enumerate(field.reasons, 1)}
    head = ["model type", "tower", "text", "projector", "state", *field.values]
    rows = []
    for one in field.types:
        parts = [
            f"`{part}`" if part else "" for part in (one.name, one.parts["tower"], one.parts["text"], one.projector)
        ]
        state = f"{STATES[one.state]} ({numbers[one.says]})" if one.says else STATES[one.state]
        cells = [_sign(one.standings[value], numbers) if one.standings else "" for value in field.values]
        rows.append(line([*parts, state, *cells]))
    versions = ", ".join(f"{name} {held}" for name, held in field.versions.items())
    table = [line(head), line(["---"] * len(head)), *rows, ""]
    return [summary(field), "", f"Made with {versions}.", "", *table, *listed_reasons(field.reasons)]


def _sign(one: Standing, numbers: dict[str, int]) -> str:
    given = ", ".join(str(numbers[lack.reason]) for lack in one.lacks)
    if one.state == "lacking":
        return f"no ({given})"
    read = "recomputed" if one.state == "recomputed" else "yes"
    return f"{read}, {one.where} only ({given})" if one.blocks else read


def _data(field: Field) -> dict[str, Any]:
    """The field for programs.

    ``versions``
        of belvedere, transformers, torch, nnsight and python.
    ``values``
        every standard path, in the order of the table.
    ``types``
        one object a model type: ``model_type``, ``state`` (``served``, ``tiny``, ``text``, ``missing``), ``wrapper``,
        ``tower`` and ``text`` (model types, or ``null``), ``projector`` (a class, or ``null``), ``unknown`` (the parts
        without an entry), ``missing`` (what is missing and why, or ``null``), ``cause`` (why alone, or ``null``),
        ``note`` (or ``null``), and ``values``.
    ``types[].values``
        by standard path, none where the type is missing: ``state`` (``served``, ``recomputed``, ``lacking``),
        ``blocks`` (the blocks that have it where others lack it, else ``null``), ``part``, ``shape``, ``recomputed``,
        and ``reasons``: a list of ``{"blocks", "reason"}``, where ``blocks`` is ``null`` for a reason of the whole.
    """
    types = [
        {
            "model_type": one.name,
            "state": one.state,
            **{part: held or None for part, held in one.parts.items()},
            "projector": one.projector or None,
            "unknown": list(one.unknown),
            "missing": one.reason or None,
            "cause": one.cause or None,
            "note": one.note or None,
            "values": {value: standing.as_data() for value, standing in one.standings.items()},
        }
        for one in field.types
    ]
    return {"versions": dict(field.versions), "values": list(field.values), "types": types}


def _words(field: Field) -> dict[str, Any]:
    """What the page says beside the field's own words."""
    numbers = {reason: number for number, reason in enumerate(field.reasons, 1)}
    columns = {"type": "model type", "tower": "tower", "text": "text", "projector": "projector"}
    return {
        "summary": summary,
        "kinds": KINDS,
        "columns": columns | {kind: words for kind, (_, words) in KINDS.items()},
        "numbers": numbers,
        "numbered": lambda one, numbers: [numbers[lack.reason] for lack in one.lacks],
        "told": _told,
    }


def _told(one: Standing) -> str:
    """All that is known of a cell, for who points at it."""
    parts = [
        KINDS[one.kind][1],
        *([one.shape] if one.shape else []),
        *([f"read from {one.part}"] if one.part and one.state != "lacking" else []),
        *([f"made of {one.recomputed}"] if one.recomputed else []),
        *([f"on {one.where}"] if one.blocks else []),
        *([one.because] if one.lacks else []),
    ]
    return ". ".join(parts)


FIELD = Form(
    title=lambda field: "What Belvedere supports of every vision-language model type",
    renderable=_renderable,
    markdown=_markdown,
    data=_data,
    template="field.html.j2",
    words=_words,
)
