"""The notebooks on the site: a list, a page for each as it is written, and the files themselves.

A page shows a notebook's text and code and not what it prints: running all of them takes longer than building the rest.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "notebooks"


@cache
def notebooks() -> dict[str, list[dict[str, Any]]]:
    """The cells of every notebook, by its name; the one to begin with first."""
    found = sorted(FOLDER.glob("*.ipynb"), key=lambda path: (path.stem != "first_look", path.stem))
    return {path.stem: json.loads(path.read_text())["cells"] for path in found}


def text(cell: dict[str, Any]) -> str:
    """What stands in a cell."""
    return "".join(cell["source"])


def listed() -> str:
    """A line for each notebook: its title, what it asks, and its file."""
    lines = []
    for name, cells in notebooks().items():
        title, _, body = text(cells[0]).partition("\n")
        first = " ".join(body.strip().split("\n\n")[0].split())
        lines.append(f"## [{title.lstrip('# ')}](notebooks/{name}.md)\n\n{linked(first)}\n\n{sections(cells)}")
    return "\n\n".join(lines)


def sections(cells: list[dict[str, Any]]) -> str:
    """The headings of a notebook, in a row."""
    found = [
        heading
        for cell in cells
        if cell["cell_type"] == "markdown"
        for heading in re.findall(r"^## (.+)$", text(cell), re.MULTILINE)
    ]
    return f"In it: {'; '.join(found)}." if found else ""


def linked(written: str) -> str:
    """A notebook's links to others, from the list."""
    return re.sub(r"\]\((\w+)\.ipynb", r"](notebooks/\1.md", written)


def page(name: str) -> str:
    """A notebook as a page: its text, and its code."""
    body = []
    for number, cell in enumerate(notebooks()[name]):
        written = text(cell)
        if cell["cell_type"] == "code":
            body.append(f"```python\n{written}\n```")
        else:
            # A notebook stands beside `docs`, its page inside of it.
            body.append(re.sub(r"\]\((\w+)\.ipynb", r"](\1.md", written).replace("](../docs/", "](../"))
        if number == 0:
            body.append(
                f"Run [the notebook itself]({name}.ipynb){{ download }} to see what each cell prints and draws."
            )
    return "\n\n".join(body) + "\n"
