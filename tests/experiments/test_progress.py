"""The bar of a sweep: counted to the end, on standard error, and only where someone watches."""

import itertools
import sys
from types import SimpleNamespace

import pytest

from belvedere.experiments import logit_difference, patch, progress
from belvedere.experiments.progress import Bar


def sweep(rig, shown):
    return patch(
        rig.model,
        rig.clean,
        rig.corrupt,
        "layers.layer_output",
        logit_difference(9, 20),
        layers=[0, 1],
        positions=range(5),
        batch_cells=2,
        progress=shown,
    )


def test_nothing_is_shown_where_nobody_watches(llava_rig, capfd):
    sweep(llava_rig, None)
    assert capfd.readouterr() == ("", "")


def test_a_bar_that_is_asked_for_counts_every_cell_on_standard_error(llava_rig, capfd):
    sweep(llava_rig, True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "layers.layer_output" in shown.err
    assert "10/10" in shown.err


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook shows of a bar."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return Handle()

    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return shown


def test_a_notebook_updates_one_display_in_place(notebook):
    with Bar("a value", 5, True) as bar:
        bar.advance(2)
        bar.advance(3)
    assert notebook == ["a value: 0 of 5 cells", "a value: 2 of 5 cells", "a value: 5 of 5 cells"]


def test_a_notebook_shows_no_bar_of_what_is_done_at_once(notebook, monkeypatch):
    with Bar("a value", 5) as bar:
        bar.advance(5)
    assert notebook == []
    now = itertools.count()
    monkeypatch.setattr(progress, "monotonic", lambda: next(now))
    with Bar("a value", 5) as bar:
        bar.advance(2)
        bar.advance(3)
    assert notebook == ["a value: 2 of 5 cells", "a value: 5 of 5 cells"]
