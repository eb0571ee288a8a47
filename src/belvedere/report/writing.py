"""One door to every format: a record is written for a terminal, as Markdown, as JSON or as a page.

What is installed can stand under any of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from belvedere.report.page import page
from belvedere.report.versions import TransformersReport

__all__ = ["Form", "line", "rendered", "written"]

#: The width of a terminal's text in a file.
WIDTH = 160


@dataclass(frozen=True, kw_only=True)
class Form:
    """How one kind of record is written.

    Args:
        title: Its heading.
        renderable: For a rich console.
        markdown: The lines below the heading.
        data: For JSON.
        template: The page's template, which gets the record by the name ``record``.
        words: What else it gets.
    """

    title: Callable[[Any], str]
    renderable: Callable[[Any], RenderableType]
    markdown: Callable[[Any], list[str]]
    data: Callable[[Any], Mapping[str, Any]]
    template: str
    words: Callable[[Any], Mapping[str, Any]] = lambda record: {}


def rendered(record: Any, about: TransformersReport | None = None) -> RenderableType:
    """A record for a rich console.

    Args:
        record: A `Matrix`, a `Comparison`, a `Field`, or a `TransformersReport` by itself.
        about: What to say under it of what is installed.
    """
    form = _form(record)
    parts = [Text(form.title(record), style="bold"), form.renderable(record)]
    return Group(*parts, *([Text("Versions", style="bold"), _installed(about)] if about else []))


def written(record: Any, format: str, about: TransformersReport | None = None) -> str:
    """A record as text.

    Args:
        record: As for `rendered`.
        format: ``"terminal"``, ``"markdown"``, ``"json"`` or ``"html"``.
        about: What to say under it of what is installed; in JSON it is ``transformers_report``.

    Raises:
        KeyError: There is no such format.
    """
    return WRITERS[format](record, about)


def line(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def _terminal(record: Any, about: TransformersReport | None) -> str:
    console = Console(file=StringIO(), width=WIDTH, color_system=None)
    console.print(rendered(record, about))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def _markdown(record: Any, about: TransformersReport | None) -> str:
    form = _form(record)
    lines = [f"# {form.title(record)}", "", *form.markdown(record)]
    return "\n".join([*lines, *(["## Versions", "", *_facts(about)] if about else [])])


def _json(record: Any, about: TransformersReport | None) -> str:
    data = {**_form(record).data(record), **({"transformers_report": about.as_data()} if about else {})}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _html(record: Any, about: TransformersReport | None) -> str:
    form = _form(record)
    return page(form.template, title=form.title(record), record=record, about=about, **form.words(record))


WRITERS: dict[str, Callable[[Any, TransformersReport | None], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
    "html": _html,
}


def _installed(about: TransformersReport) -> RenderableType:
    table = Table(show_header=False)
    for name, said in about.lines.items():
        table.add_row(Text(name), Text(said))
    return table


def _facts(about: TransformersReport) -> list[str]:
    return [*(f"- {name}: {said}" for name, said in about.lines.items()), ""]


REPORT = Form(
    title=lambda record: "What is installed",
    renderable=_installed,
    markdown=_facts,
    data=lambda record: {"transformers_report": record.as_data()},
    template="about.html.j2",
)


def _form(record: Any) -> Form:
    from belvedere.report import comparison_formats, field_formats, formats
    from belvedere.report.comparison import Comparison
    from belvedere.report.field import Field
    from belvedere.report.matrix import Matrix

    forms: dict[type, Form] = {
        Matrix: formats.MATRIX,
        Comparison: comparison_formats.COMPARISON,
        Field: field_formats.FIELD,
        TransformersReport: REPORT,
    }
    return forms[type(record)]
