"""Pages and tables made of results: the support matrix and what verifying found, in four formats; the demo's report.

`matrix` gathers what a checkpoint supports into one record; `formats` writes that record for a terminal, as Markdown,
as JSON or as a page, and `verified` does so with what `model.verify` returns. `cases` makes a pair of inputs, `story`
runs the patching on it, and `demo` writes what came out.
"""

from belvedere.report.cases import Case, Token, picture_case, shapes_case
from belvedere.report.demo import write
from belvedere.report.formats import FORMATS, as_renderable
from belvedere.report.matrix import Matrix, support_matrix
from belvedere.report.story import Answer, Finding, Story, tell
from belvedere.report.verified import VERIFIED

__all__ = [
    "FORMATS",
    "VERIFIED",
    "Answer",
    "Case",
    "Finding",
    "Matrix",
    "Story",
    "Token",
    "as_renderable",
    "picture_case",
    "shapes_case",
    "support_matrix",
    "tell",
    "write",
]
