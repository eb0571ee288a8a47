"""What pages ask for that is no single table: drawings, pages of towers, lists of reasons, sizes, notebooks.

A page asks with a line such as ``<!-- made: drawing wrapper -->``; what is made is read off the code, as the tables of
`_hooks` are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import _diagram
import _hooks
import _memory
import _notebooks
import _reasons
import _towers
from PIL import Image

import belvedere

#: Where the picture of the first page is.
SCENE = "pictures/scene.png"
MARKER = re.compile(r"^<!-- made: (?P<maker>[a-z]+)(?P<arguments>( [\w.]+)*) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what a page asks for in its place; mkdocs calls this."""
    return MARKER.sub(lambda found: MAKERS[found["maker"]](*found["arguments"].split()), markdown)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the notebooks to the site, each as a page and as the file that it is; mkdocs calls this."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, SCENE, content=_scene()))
    for name in _notebooks.notebooks():
        files.append(File.generated(config, f"notebooks/{name}.md", content=_notebooks.page(name)))
        files.append(
            File.generated(config, f"notebooks/{name}.ipynb", abs_src_path=str(_notebooks.FOLDER / f"{name}.ipynb"))
        )
    return files


def scene() -> str:
    """The picture that the first page draws, with its question and answer."""
    drawn = belvedere.shapes.sample(0)
    shown = f"![The scene of seed 0]({SCENE})"
    return f"{shown}\n\nThe scene of seed 0: *{drawn.question}* {drawn.answer}."


def _scene() -> bytes:
    held = BytesIO()
    belvedere.shapes.sample(0).image.resize((224, 224), Image.Resampling.NEAREST).save(held, format="png")
    return held.getvalue()


def undrawn() -> str:
    """The values that are in no drawing, as links to their rows."""
    drawn, rows = _diagram.every_drawn(), [*_hooks.rows()]
    first = {name: owner for owner, name in reversed(rows)}
    names = dict.fromkeys(name for _, name in rows if name not in drawn)
    return ", ".join(f"[`{name}`](#{_hooks.anchor(first[name], name)})" for name in names) + "."


def drafted() -> str:
    """What the draft says of a family that no shelf has."""
    from transformers import QianfanOCRConfig

    from belvedere.draft import draft

    said = draft(QianfanOCRConfig()).partition("\n\n--- a row of")[0]
    return f"```text\n{said}\n```"


def listed(package: str) -> str:
    """A directive of the reference for every public name of a package."""
    return "\n\n".join(f"::: {package}.{name}" for name in import_module(package).__all__)


MAKERS: dict[str, Callable[..., str]] = {
    "drawing": _diagram.drawing,
    "undrawn": undrawn,
    "scene": scene,
    "tower": _towers.tower,
    "inside": _towers.inside,
    "drafted": drafted,
    "listed": listed,
    "memory": _memory.memory,
    "notebooks": _notebooks.listed,
    "planned": _memory.planned,
    "reasons": _reasons.reasons,
    "towers": _towers.towers,
}
