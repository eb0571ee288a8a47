"""The engine of sweeps: for each cell it runs what its patch can change, and no more.

A sweep has many cells, each a copy of one run with a few vectors replaced. The clean and the corrupt input run once
each. A cell then begins where its patch is: at that text block, with the streams that the corrupt run left, and where
the attention is causal at that position, with the keys, values and states of those before. A cell of the tower begins
at that tower block, and behind the tower at the first image token. Where its new vectors come from is a source's: the
clean run, or what stands in for an ablated value. What heads read is given to a projection, which is run on the patched
vectors alone; image features are what enters the first text block.

What only a trace can write (a value at an operation inside a forward, an attention pattern) is written in a trace that
is taken up at the first changed block: `Resumed` answers for all that comes before. Cuts of the text's attention are
masks of a replay where they may be: `Masked`.

Nothing here knows an architecture. What a block is called with, which axes grow with the number of prompts, what the
stack adds between two blocks, which position attends to which: all of it is read off the runs themselves. And before a
sweep relies on it, some cells are run both ways, by the engine and by a whole forward in a trace; where they do not
agree, and where a stack does what cannot be taken up in the middle, the next way is tried, and in the end every cell
is a whole forward.
"""

from belvedere.experiments.engine.choice import Cells, cells_of
from belvedere.experiments.engine.masked import Masked, masked
from belvedere.experiments.engine.pace import Pace, memory_of
from belvedere.experiments.engine.resumed import SOME, Resumed, resumed
from belvedere.experiments.engine.saved import DIGITS, Scores, digest, digest_of
from belvedere.experiments.engine.sweep import Sweep
from belvedere.experiments.engine.weights import weights_digest

__all__ = [
    "DIGITS",
    "SOME",
    "Cells",
    "Masked",
    "Pace",
    "Resumed",
    "Scores",
    "Sweep",
    "cells_of",
    "digest",
    "digest_of",
    "masked",
    "memory_of",
    "resumed",
    "weights_digest",
]
