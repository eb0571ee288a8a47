"""Random packs of pictures and videos, and random prompts about them."""

from dataclasses import dataclass, field

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

EXAMPLES = settings(max_examples=500, deadline=None, database=None, derandomize=True)

#: Seconds between frames; of some, in float32, a frame's time is not the same by another order of products.
SECONDS = (0.9, 0.04, 0.12, 0.24, 1.4, 0.5, 2 / 3, 1.0)

TEXT, IMAGE, VIDEO, BEGIN, END = 1, 5, 6, 7, 8


@st.composite
def packs(draw):
    """The side of a fold, and ``(t, h, w)`` of up to ten entries, whose sides are multiples of it."""
    merge = draw(st.integers(1, 3))
    sides = st.integers(1, 9).map(lambda count: count * merge)
    frames = st.sampled_from([1, 1, 1, 2, 3, 5])
    entries = draw(st.one_of(st.lists(st.tuples(frames, sides, sides), min_size=size, max_size=10) for size in (1, 10)))
    return merge, entries


#: What a random pack may miss: a single fold, one row, one column, a long video, ten pictures of one size.
CORNERS = ([(1, 2, 2)], [(1, 2, 40)], [(1, 40, 2)], [(30, 2, 4)], [(1, 4, 6)] * 10, [(1, 2, 2), (3, 4, 26), (1, 26, 4)])


def over_packs(test):
    """Runs a test of ``(merge, grids)`` over 500 random packs and the corners."""
    test = EXAMPLES(given(pack=packs())(test))
    for grids in CORNERS:
        test = example(pack=(2, grids))(test)
    return test


@dataclass
class Prompt:
    """A padded batch: the ids, the mask, and the grids of its pictures and videos in order."""

    rows: list[list[int]]
    images: list[tuple[int, int, int]] = field(default_factory=list)
    videos: list[tuple[int, int, int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    left: bool = True
    masked: bool = True

    def padded(self, row, filler):
        blank = [filler] * (max(map(len, self.rows)) - len(row))
        return blank + row if self.left else row + blank

    @property
    def ids(self):
        return torch.tensor([self.padded(row, IMAGE) for row in self.rows])

    @property
    def mask(self):
        return torch.tensor([self.padded([1] * len(row), 0) for row in self.rows]) if self.masked else None

    @property
    def types(self):
        """What an encoding's ``mm_token_type_ids`` say."""
        return (self.ids == IMAGE).long() + 2 * (self.ids == VIDEO)


@st.composite
def prompts(draw, merge=2, rows=3, frames_apart=False):
    """Up to so many rows, each of text with pictures and videos in it, padded to one length on either side."""
    prompt = Prompt(rows=[])
    for _ in range(draw(st.integers(1, rows))):
        row = [TEXT] * draw(st.integers(0, 3))
        for kind in draw(st.lists(st.sampled_from([IMAGE, VIDEO]), max_size=3)):
            frames = draw(st.sampled_from([1, 2, 4, 6, 11])) if kind == VIDEO else 1
            down, across = draw(st.integers(1, 4)), draw(st.integers(1, 4))
            (prompt.videos if kind == VIDEO else prompt.images).append((frames, down * merge, across * merge))
            if kind == VIDEO:
                prompt.seconds.append(draw(st.sampled_from(SECONDS)))
            runs = [down * across] * frames if frames_apart else [down * across * frames]
            for run in runs:
                row += [BEGIN, *[kind] * run, END, *[TEXT] * draw(st.integers(0, 2))]
        prompt.rows.append(row or [TEXT])
    prompt.left = draw(st.booleans())
    prompt.masked = len({len(row) for row in prompt.rows}) > 1 or draw(st.booleans())
    return prompt
