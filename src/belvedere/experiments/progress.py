"""A progress bar for a terminal or a notebook, and nothing where nobody is watching."""

from __future__ import annotations

from importlib import import_module
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Bar"]

#: Seconds before a notebook shows a bar: its output stands, and a page of bars that were full at once tells nothing.
PATIENCE = 0.5


class Meter(Protocol):
    """Something that shows how far a sweep has come."""

    def start(self) -> None:
        """Begin to show."""

    def update(self, done: int) -> None:
        """Show that so many cells are done."""

    def stop(self) -> None:
        """Leave the last state standing."""


class Bar:
    """Counts the cells of a sweep, and shows the count.

    Args:
        name: What is swept.
        total: How many cells there are.
        shown: Whether to show it; ``None`` shows it in a terminal or, where it takes a while, in a notebook.
        unit: What is counted.
    """

    def __init__(self, name: str, total: int, shown: bool | None = None, *, unit: str = "cells") -> None:
        self.done = 0
        self._meter = _meter(name, total, shown, unit)

    def __enter__(self) -> Bar:
        self._meter.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._meter.stop()

    def advance(self, cells: int) -> None:
        """Count some cells more."""
        self.done += cells
        self._meter.update(self.done)


class Silent:
    """Shows nothing."""

    def start(self) -> None:
        """Nothing."""

    def update(self, done: int) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class Terminal:
    """A rich bar on standard error, so that output can be piped."""

    def __init__(self, name: str, total: int, console: Console, unit: str) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task(name, total=total)

    def start(self) -> None:
        """Begin to show."""
        self._progress.start()

    def update(self, done: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done)

    def stop(self) -> None:
        """Leave the bar standing."""
        self._progress.stop()


class Notebook:
    """An HTML bar in the cell's output, updated in place; needs no widgets."""

    def __init__(self, name: str, total: int, patience: float, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._patience, self._begun = patience, monotonic()
        self._display: Any = None

    def start(self) -> None:
        """Begin to count, and to show where there is nothing to wait for."""
        self._begun = monotonic()
        if not self._patience:
            self.update(0)

    def update(self, done: int) -> None:
        """Move the bar, once it has taken so long that someone would wonder."""
        if self._display is not None:
            self._display.update(self._shown(done), raw=True)
        elif monotonic() - self._begun >= self._patience:
            show = import_module("IPython.display").display
            self._display = show(self._shown(done), raw=True, display_id=True)

    def stop(self) -> None:
        """Nothing: the output stands."""

    def _shown(self, done: int) -> dict[str, str]:
        text = f"{self._name}: {done} of {self._total} {self._unit}"
        bar = f"<progress max={self._total} value={done} style='width: 20em; vertical-align: middle'></progress>"
        return {"text/plain": text, "text/html": f"{bar} <code>{text}</code>"}


def _meter(name: str, total: int, shown: bool | None, unit: str) -> Meter:
    console = Console(stderr=True)
    if shown is False:
        return Silent()
    if console.is_jupyter:
        return Notebook(name, total, 0 if shown else PATIENCE, unit)
    if shown or console.is_terminal:
        return Terminal(name, total, console, unit)
    return Silent()
