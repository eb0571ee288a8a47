"""Pages and tables made of results: the support matrix in four formats, the demo's report, and a page to explore.

`matrix` gathers what a checkpoint supports into one record; `formats` writes that record for a terminal, as Markdown,
as JSON or as a page. `cases` makes a pair of inputs, `story` runs the patching on it, and `demo` writes what came out.
`explore` gathers what a model does with one picture and one prompt, and `explorer` makes the page to look around in it.
"""

from belvedere.report.cases import Case, Token, picture_case, shapes_case
from belvedere.report.demo import write
from belvedere.report.exploration import Candidate, Exploration, Word, explore
from belvedere.report.explored import explorer
from belvedere.report.formats import FORMATS, as_renderable
from belvedere.report.looked import Looks
from belvedere.report.matrix import Matrix, support_matrix
from belvedere.report.sheets import Sheet
from belvedere.report.story import Answer, Finding, Story, tell

__all__ = [
    "FORMATS",
    "Answer",
    "Candidate",
    "Case",
    "Exploration",
    "Finding",
    "Looks",
    "Matrix",
    "Sheet",
    "Story",
    "Token",
    "Word",
    "as_renderable",
    "explore",
    "explorer",
    "picture_case",
    "shapes_case",
    "support_matrix",
    "tell",
    "write",
]
