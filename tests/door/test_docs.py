"""Every Python block of the README and the documentation runs, in order, in one namespace a page, without a network."""

import os
import re
import subprocess
import sys

import pytest
from door.pages import PAGES, ROOT, blocks, name, script

#: What a block's title may say instead of running.
MARKS = {"needs a download"}
WITH_CODE = [page for page in PAGES if script(page, MARKS).strip()]


@pytest.mark.trained
@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_the_blocks_of_a_page_run(page, tmp_path):
    # A file, and not `exec`: nnsight reads the source of a traced block.
    file = tmp_path / f"{page.stem}.py"
    file.write_text(script(page, MARKS))
    settings = {**os.environ, "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)], cwd=tmp_path, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{name(page)} (lines are the page's)\n{done.stderr}"
    assert not said(done.stderr), f"{name(page)} says on standard error\n{done.stderr}"


def said(errors: str) -> list[str]:
    """The lines of standard error, but for transformers' own bar, which rewrites its line."""
    lines = (line.rpartition("\r")[2] for line in errors.splitlines())
    return [line for line in lines if line.strip() and not line.startswith("Loading weights:")]


def test_what_is_said_on_standard_error_is_told_from_a_bar():
    bar = "\rLoading weights:   0%|   | 0/9\rLoading weights: 100%|###| 9/9 [00:00<00:00]\n"
    assert said(bar) == []
    assert said(f"{bar}UserWarning: a word\n  at(line)\n") == ["UserWarning: a word", "  at(line)"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_block_says_what_it_is(page):
    for block in blocks(page):
        where = f"{name(page)}:{block.line}"
        assert block.language, f"{where} names no language"
        if block.shows:
            assert block.title == block.shows, f"{where} shows another file than it says"
        elif block.language == "python":
            assert block.title in {"", *MARKS}, f"{where} has a title that neither runs nor skips it"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_shows_files_and_does_not_copy_them(page):
    for included in re.findall(r'^--8<-- "(.*)"$', page.read_text(), re.MULTILINE):
        assert (ROOT / included).is_file(), f"{name(page)} shows {included}"


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.name != "README.md"}
