"""A normal path says nothing that nobody asked for."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from door.pages import ROOT
from door.test_docs import said

from belvedere import kernels
from belvedere.kernels import ADVICE, ADVISER, hold_back_vain_advice

#: A process that tqdm takes for a notebook whose machine lacks ipywidgets.
NOTEBOOK = """
import sys, types
for name in ("IPython", "ipykernel.zmqshell"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["IPython"].get_ipython = lambda: None
sys.modules["ipywidgets"] = None
"""


def run(code, *options):
    settings = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, *options, "-c", code], env=settings, capture_output=True, text=True)


def test_a_notebook_without_widgets_is_not_told_so_when_belvedere_is_imported():
    # As an error the warning would be caught by tqdm itself.
    assert "IProgress not found" in run(f"{NOTEBOOK}\nimport tqdm.auto", "-W", "always").stderr
    load = "from belvedere import StandardizedTransformer\nassert 'tqdm.auto' in sys.modules"
    quiet = run(f"{NOTEBOOK}\n{load}", "-W", "always")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_the_demo_says_nothing_on_standard_error(tmp_path):
    script = "from belvedere.cli import app; app()"
    settings = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, "demo", "--out", str(tmp_path / "demo")],
        env=settings,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, said(done.stderr)) == (0, [])


def test_no_notebook_turns_warnings_or_logs_off():
    """There is none to turn off: what a reader of a notebook sees is what a user sees."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert notebooks
    for notebook in notebooks:
        code = "".join(line for cell in json.loads(notebook.read_text())["cells"] for line in cell["source"])
        assert "filterwarnings" not in code
        assert "set_verbosity" not in code


@pytest.mark.parametrize(("gpu", "heard"), [(False, ["another word"]), (True, [f"`rule` {ADVICE}", "another word"])])
def test_advice_on_kernels_is_given_where_they_could_run(gpu, heard, monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: gpu)
    hold_back_vain_advice()
    adviser, listener = logging.getLogger(ADVISER), Listener()
    adviser.addHandler(listener)
    try:
        adviser.warning("`rule` %s", ADVICE)
        adviser.warning("another word")
    finally:
        adviser.removeHandler(listener)
    assert listener.heard == heard


class Listener(logging.Handler):
    def __init__(self):
        super().__init__()
        self.heard = []

    def emit(self, record):
        self.heard.append(record.getMessage())


def test_the_advice_is_worded_as_transformers_words_it():
    from transformers.integrations import hub_kernels

    assert hub_kernels.__name__ == ADVISER
    source = Path(hub_kernels.__file__).read_text()
    assert ADVICE in source.replace('"\n                    f"', "")


def test_the_filter_is_added_once():
    hold_back_vain_advice()
    hold_back_vain_advice()
    filters = [held for held in logging.getLogger(ADVISER).filters if isinstance(held, kernels.Advice)]
    assert len(filters) == 1
