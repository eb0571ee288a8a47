"""The figures of a page whose Python blocks save them: the page's own code runs while the pages are built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
#: The pages that have figures.
DRAWING = ("plots.md",)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
USED = re.compile(r"\(figures/([\w-]+\.png)\)")


@cache
def figures(page: str) -> dict[str, bytes]:
    """The figures that a page's code saves, by file name.

    Raises:
        RuntimeError: The code fails, or the page shows a figure that it does not save.
    """
    text = (HERE / page).read_text()
    with TemporaryDirectory() as folder:
        # A file, and not `exec`: nnsight reads the source of a traced block.
        script = Path(folder) / "page.py"
        script.write_text("\n".join(BLOCK.findall(text)))
        settings = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, script.name], cwd=folder, env=settings, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the code of {page} fails:\n{done.stderr}")
        made = {file.name: file.read_bytes() for file in Path(folder).glob("*.png")}
    missing = set(USED.findall(text)) - made.keys()
    if missing:
        raise RuntimeError(f"{page} shows {', '.join(sorted(missing))}, which its code does not save")
    return made
