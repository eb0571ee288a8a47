"""The field, built once a process, and what a browser makes of its page."""

import re
import shutil
import subprocess
from functools import cache

import pytest

from belvedere.cli.support import _watched
from belvedere.report import Field, survey, written

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine, so the page is not opened")


@cache
def field() -> Field:
    # As the command builds it, with its bar.
    return survey(_watched)


@cache
def page() -> str:
    return written(field(), "html")


def types():
    """The rows of the field, by name."""
    return {one.name: one for one in field().types}


def opened(folder, asked="", script="", *options):
    """What a browser writes to standard output for the page at an address, once a script has run in it."""
    file = folder / "field.html"
    file.write_text(page().replace("</body>", f"<script>{script}</script></body>") if script else page())
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
        *options,
    ]
    done = subprocess.run([*command, f"{file.as_uri()}{asked}"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dumped(folder, asked="", script=""):
    return opened(folder, asked, script, "--dump-dom")


def rows(dom):
    """The model types of a page in their order, those that are hidden left out."""
    found = re.findall(r'<tr(?P<before>[^>]*) data-name="(?P<name>[^"]+)"(?P<after>[^>]*)>', dom)
    return [name for before, name, after in found if "hidden" not in before + after]


def columns(dom):
    """The values whose columns a page shows."""
    found = re.findall(r'<th scope="col" class="value[^>]*>', dom)
    return [re.search('data-key="(.*?)"', one)[1] for one in found if "hidden" not in one]
