"""Pages and tables made of results: support matrices, what verifying found, the demo's report, and a page to explore.

`matrix` gathers what a checkpoint supports into one record, `comparison` where several differ, and `field` what every
model type of transformers supports; `writing` writes each of them for a terminal, as Markdown, as JSON or as a page,
and `verified` does so with what `model.verify` returns. `cases` makes a pair of inputs, `story` runs the patching on
it, and `demo` writes what came out. `exploration` gathers what a model does with one picture and one prompt, and
`explored` makes the page to look around in it.
"""

from belvedere.report.cases import Case, Token, picture_case, shapes_case
from belvedere.report.comparison import Comparison, compare
from belvedere.report.demo import write
from belvedere.report.exploration import Candidate, Exploration, Word, explore
from belvedere.report.explored import explorer
from belvedere.report.field import Field, ModelType, survey
from belvedere.report.formats import FORMATS
from belvedere.report.looked import Looks
from belvedere.report.matrix import Matrix, support_matrix
from belvedere.report.sheets import Sheet
from belvedere.report.standing import Lack, Standing
from belvedere.report.story import Answer, Finding, Story, tell
from belvedere.report.verified import VERIFIED
from belvedere.report.versions import TransformersReport, transformers_report
from belvedere.report.writing import rendered, written

__all__ = [
    "FORMATS",
    "VERIFIED",
    "Answer",
    "Candidate",
    "Case",
    "Comparison",
    "Exploration",
    "Field",
    "Finding",
    "Lack",
    "Looks",
    "Matrix",
    "ModelType",
    "Sheet",
    "Standing",
    "Story",
    "Token",
    "TransformersReport",
    "Word",
    "compare",
    "explore",
    "explorer",
    "picture_case",
    "rendered",
    "shapes_case",
    "support_matrix",
    "survey",
    "tell",
    "transformers_report",
    "write",
    "written",
]
