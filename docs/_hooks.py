"""What the documentation says of the code, read off the code while the pages are built.

A page asks for a table with a line such as ``<!-- generated: values Layer -->``. Each table is a function below, so a
name, a shape or a reason has one home, and the page follows it. A line ``<!-- drawn: towers -->`` asks for pictures,
which are drawn by then.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import nnsight  # noqa: F401 - before any transformers model, which nnsight patches

import belvedere
from belvedere import components, families, layouts, report
from belvedere.descriptors import KeptValue, Value
from belvedere.standardized import StandardizedTransformer

sys.path.insert(0, str(Path(__file__).parent))

import _explored
import _figures
import _pictures
import _placing

MARKER = re.compile(r"^<!-- generated: (?P<table>[a-z]+)(?P<arguments>( \w+)*) -->$", re.MULTILINE)
DRAWN = re.compile(r"^<!-- drawn: (?P<shelf>\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put every table and picture that a page asks for in its place; mkdocs calls this."""
    tabled = MARKER.sub(lambda found: TABLES[found["table"]](*found["arguments"].split()), markdown)
    return DRAWN.sub(lambda found: pictures(found["shelf"]), tabled)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pictures, a page to explore one, and the field's matrix as a page by itself; mkdocs calls this."""
    from mkdocs.structure.files import File

    for name in (*_pictures.PICTURES, *_pictures.FURTHER):
        files.append(File.generated(config, _picture_file(name), content=_pictures.drawn(name)))
    files.append(File.generated(config, _explored.NAME, content=_explored.made()))
    whole = report.written(surveyed(), "html", report.transformers_report())
    files.append(File.generated(config, "support-matrix.html", content=whole))
    for page in _figures.DRAWING:
        for name, content in _figures.figures(page).items():
            files.append(File.generated(config, f"figures/{name}", content=content))
    return files


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; bars inside a cell are escaped."""
    cells = [list(head), ["---"] * len(list(head)), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def host(name: str) -> Any:
    """The class of that name: the root or a component."""
    return StandardizedTransformer if name == "StandardizedTransformer" else getattr(components, name)


def is_absent(found: Value[Any]) -> bool:
    """Whether this kind of component never has the value, on any checkpoint."""
    return found.at == ""


def values(name: str) -> str:
    """The values that a host has, in the order of the forward, and those that it declares absent."""
    found = host(name).values()
    absent = [f"`{one.name}`" for one in found.values() if is_absent(one)]
    note = f"\n\nAbsent here, with a [reason](availability.md): {', '.join(absent)}." if absent else ""
    return _value_table(name, found.values()) + note


def extra(name: str, than: str) -> str:
    """The values that one host has and another, more general one lacks."""
    general = host(than).values()
    return _value_table(name, (one for key, one in host(name).values().items() if is_absent(general[key])))


def _value_table(host: str, found: Iterable[Value[Any]]) -> str:
    rows = [_value_row(host, one) for one in found if not is_absent(one)]
    return table(("value", "shape", "what it is", "read", "write"), rows)


def anchor(host: str, name: str) -> str:
    """The name of a value's row on its page."""
    return f"{host}.{name}"


def _value_row(host: str, found: Value[Any]) -> tuple[str, ...]:
    when = "at any later point" if isinstance(found, KeptValue) else "in order"
    shape = layouts.shape(found.layout)
    return (
        f"`{found.name}`",
        f"`{found.layout}` `{shape}`" if shape else "",
        f'<span id="{anchor(host, found.name)}"></span>{sentence(found)}',
        when,
        f"no: {found.read_only}" if found.read_only else "yes",
    )


def sentence(documented: Any) -> str:
    """The first sentence of a docstring; a value's docstring is that of the function that reads it."""
    written = documented._preprocess.__doc__ if isinstance(documented, Value) else documented.__doc__
    return re.split(r"(?<=\.)\s", " ".join((written or "").split()), maxsplit=1)[0].replace("``", "`")


def rows() -> Iterator[tuple[str, str]]:
    """Host and name of each row in the tables of the page of names and values."""
    page = (Path(__file__).parent / "vocabulary.md").read_text()
    for asked in MARKER.finditer(page):
        if asked["table"] in ("values", "extra"):
            owner = asked["arguments"].split()[0]
            written = TABLES[asked["table"]](*asked["arguments"].split())
            yield from ((owner, name) for name in re.findall(rf'id="{owner}\.(\w+)"', written))


def kept() -> str:
    """The values that can be read at any later point, by standard path."""
    hosts = {
        "": StandardizedTransformer,
        "vision.": components.Vision,
        "vision.layers[i].self_attn.": components.QwenVisionAttention,
    }
    found = [
        (f"`model.{prefix}{one.name}`", sentence(one))
        for prefix, owner in hosts.items()
        for one in owner.values().values()
        if isinstance(one, KeptValue)
    ]
    return table(("value", "what it is"), found)


def sizes(name: str) -> str:
    """The sizes that a host knows without a run."""
    own = inspect.getmembers(host(name), lambda held: isinstance(held, property) and inspect.isfunction(held.fget))
    found = [(f"`{key}`", sentence(held)) for key, held in own if held.fget.__annotations__.get("return") == "int"]
    return table(("size", "what it is"), found)


def shapes() -> str:
    """Every named layout."""
    names = [name for name in layouts.__all__ if name[0].isupper()]
    return table(("layout", "shape"), [(f"`{name}`", f"`{layouts.shape(name)}`") for name in names])


def axes() -> str:
    """What each axis name means, from the layouts' own docstring."""
    entries = re.findall(r"^(``.+``)\n((?:    .+\n?)+)", layouts.__doc__ or "", re.MULTILINE)
    meanings = [(names.replace("``", "`"), " ".join(text.split()).replace("``", "`")) for names, text in entries]
    return table(("axis", "meaning"), meanings)


def shelf(name: str) -> str:
    """The model types on a shelf."""
    entries = [(f"`{one}`", sentence(families.lookup(name, one))) for one in families.known(name)]
    return table(("model type", "what it is"), entries)


ORDERS = {"raster": "by line", "merge blocks": "by merge block", "windows": "by window"}


def wrappers() -> str:
    """Every wrapper: the tower, text, rows and places that its row of the zoo composes."""
    from belvedere.testing import ROWS

    rows = []
    for name in families.known("wrappers"):
        shown = [row.config() for row in ROWS.values() if row.config().model_type == name]
        family, facts = families.compose(shown[0]), families.lookup("wrappers", name).WRAPPER
        towers = {_code(tower) for config in shown if (tower := families.compose(config).tower) is not None}
        texts = {_code(families.compose(config).text) for config in shown}
        rows.append(
            (
                _code(name),
                ", ".join(sorted(towers)),
                ", ".join(sorted(texts)),
                _rows(family.rows),
                _code(facts.projector) if facts.projector else "none",
                _code(facts.scatter.scatter.rpartition(".")[2]) if facts.scatter else "text blocks attend to it",
                "yes" if facts.video_token else "no",
            )
        )
    return table(("wrapper", "tower", "text", "rows of a tower", "projector", "enters by", "video"), rows)


def _code(name: str) -> str:
    """A name that a narrow cell breaks between its words."""
    words = re.sub("(?<=[_.])", "<wbr>", name)
    return f"<code>{words}</code>"


def _rows(rows: families.Rows) -> str:
    packed = "packed" if rows.packed else "by picture"
    around = [
        f"{count} {where} the patches" for count, where in ((rows.before, "before"), (rows.after, "after")) if count
    ]
    padded = [f"padded to a multiple of {rows.multiple}"] if rows.multiple > 1 else []
    return ", ".join([packed, ORDERS[rows.order], *around, *padded])


def placing() -> str:
    """Every tower: its rows, what an image token is made of, and how a picture gets there."""
    rows = [
        (
            _code(tower),
            ", ".join([_rows(held), *([padding] if padding and held.multiple == 1 else [])]),
            ", ".join(map(_code, wrappers)),
            token,
            way,
        )
        for tower, held, padding, wrappers, token, way in _placing.towers()
    ]
    return table(("tower", "its rows", "in", "a token is made of", "the picture is"), rows)


def pictures(shelf: str) -> str:
    """A picture for each tower, or for some wrappers, with what is special about it."""
    drawn = {"towers": _pictures.PICTURES, "wrappers": _pictures.FURTHER}[shelf]
    return "\n\n".join(
        f"### `{name}`\n\n{sentence(families.lookup(shelf, name))}\n\n"
        f"![{name}: a picture with its patches and image tokens]({_picture_file(name)})\n\n{picture.says}"
        for name, picture in drawn.items()
    )


def _picture_file(name: str) -> str:
    return f"pictures/{name}.png"


def declined() -> str:
    """The types that transformers maps to image-text-to-text and no shelf describes, by cause."""
    causes: dict[str, list[str]] = {}
    for name, cause in sorted(families.DECLINED.items()):
        causes.setdefault(cause, []).append(f"`{name}`")
    return table(("why not", "types"), [(cause, ", ".join(names)) for cause, names in causes.items()])


@cache
def surveyed() -> report.Field:
    """Every model type of transformers, without weights."""
    return report.survey()


def field() -> str:
    """Every model type: its parts, and how many values stand how; or what is missing."""
    rows = [
        (
            _code(one.name),
            *(_part(one, part) for part in ("tower", "text")),
            _code(one.projector) if one.projector else "",
            *(str(one.counts[kind]) if one.standings else "" for kind in ("served", "recomputed", "some", "lacking")),
            f"not served: {one.cause}" if one.state == "missing" else one.note or "served",
        )
        for one in surveyed().types
    ]
    head = ("model type", "tower", "text", "projector", "served", "recomputed", "on some blocks", "lacking", "state")
    return table(head, rows)


def _part(one: report.ModelType, part: str) -> str:
    """The model type of a part, and whether it has no entry."""
    name = one.parts[part]
    return f"{_code(name)}{' (no entry)' if part in one.unknown else ''}" if name else ""


def fieldvalues() -> str:
    """Every value: how many model types have it, and why the others do not."""
    built = [one for one in surveyed().types if one.standings]
    rows = []
    for value in surveyed().values:
        each = {one.name: one.standings[value] for one in built}
        kinds = [standing.kind for standing in each.values()]
        reasons = dict.fromkeys(_said(name, lack.reason) for name, one in each.items() for lack in one.lacks)
        counted = (str(kinds.count(kind)) for kind in ("served", "recomputed", "some", "lacking"))
        rows.append((_code(value), *counted, ". ".join(reasons)))
    return table(("value", "served", "recomputed", "on some blocks", "lacking", "why it is lacking"), rows)


def _said(model_type: str, reason: str) -> str:
    """A reason's cause, alike for all types that give it: without their names, and the numbers of their blocks."""
    cause = reason.partition(";")[0]
    return cause.replace(f"{model_type} takes", "it takes").replace(f"this {model_type} config", "this config")


@cache
def models() -> dict[str, StandardizedTransformer]:
    """Each checkpoint of the package, without weights."""
    names = belvedere.shapes.CHECKPOINTS
    return {name: StandardizedTransformer.from_config(belvedere.checkpoint(name)) for name in names}


def checkpoints() -> str:
    """The package's checkpoints: what they are composed of, and their sizes."""
    rows = []
    for name in belvedere.shapes.CHECKPOINTS:
        model = models()[name]
        count = sum(parameter.numel() for parameter in model._module.parameters())
        family = model.family
        rows.append(
            (
                f"`{name}`",
                f"`{family.wrapper}`: `{family.tower}`, `{family.text}`",
                f"{model.vision.num_layers} of width {model.vision.vision_hidden_size}",
                f"{model.num_layers} of width {model.hidden_size}",
                f"{count / 1e6:.2f}M",
            )
        )
    return table(("checkpoint", "family", "tower blocks", "text blocks", "parameters"), rows)


TABLES: dict[str, Callable[..., str]] = {
    made.__name__: made
    for made in (
        values,
        extra,
        kept,
        sizes,
        shapes,
        axes,
        shelf,
        checkpoints,
        wrappers,
        placing,
        declined,
        field,
        fieldvalues,
    )
}
