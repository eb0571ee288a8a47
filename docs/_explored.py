"""The page that docs/explore.md links: a scene explored, made while the pages are built."""

from __future__ import annotations

import belvedere
from belvedere import StandardizedTransformer, report

NAME = "explore-example.html"


def made() -> str:
    """The page of a scene of the package's Qwen3.5 checkpoint, against the scene that differs in one object."""
    model = StandardizedTransformer(belvedere.checkpoint("shapes-qwen3_5"), dispatch=True)
    clean, corrupt = belvedere.shapes.pair(0, images=1)
    found = report.explore(model, clean.question, clean.images, corrupt=corrupt.images, progress=False)
    return report.explorer(found)
