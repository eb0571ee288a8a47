"""What came of verifying a checkpoint, as a terminal, a Markdown file, a program or a browser reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO

from rich.console import Console

from belvedere.report.page import page
from belvedere.verifying import Report

__all__ = ["VERIFIED"]


def as_terminal(report: Report) -> str:
    """The table as plain text, 120 columns wide."""
    held = StringIO()
    Console(file=held, width=120, color_system=None).print(report.table())
    return held.getvalue()


def as_markdown(report: Report) -> str:
    """The clauses as a Markdown table, and what they were run on under it."""
    head = [_line(["", "clause", "result", "what was checked"]), _line(["---"] * 4)]
    rows = [
        _line([str(one.number), f"`{one.clause}`", one.status, "<br>".join(map(_escaped, one.lines))])
        for one in report.clauses
    ]
    settings = [f"- {name}: {_escaped(held)}" for name, held in report.settings.items()]
    return "\n".join([f"# {report.checkpoint}: {report.summary}", "", *head, *rows, "", *settings, ""])


def as_json(report: Report) -> str:
    """The report for programs: every clause with its differences, as numbers where they are."""
    return json.dumps(report.as_dict(), indent=2, ensure_ascii=False) + "\n"


def as_html(report: Report) -> str:
    """One page that needs nothing beside itself."""
    return page("verify.html.j2", title=f"Does the contract hold on {report.checkpoint}?", report=report)


VERIFIED: dict[str, Callable[[Report], str]] = {
    "terminal": as_terminal,
    "markdown": as_markdown,
    "json": as_json,
    "html": as_html,
}


def _escaped(text: str) -> str:
    """Text in which nothing begins a tag or another cell."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
