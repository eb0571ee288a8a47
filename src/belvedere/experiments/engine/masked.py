"""Cuts of attention edges by the masks of a replay: from the first changed block and the first changed position on.

Under a softmax a cut whose rest is scaled up is a mask. Where the text's blocks are called with masks, or causally with
none, a replay needs no trace to make one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.engine.observed import observe, without_data
from belvedere.experiments.engine.replay import Entry, Replay
from belvedere.experiments.engine.trial import agree
from belvedere.experiments.engine.trust import known, state_of
from belvedere.experiments.runs import joined

if TYPE_CHECKING:
    from belvedere.experiments.engine.resumed import Resumed

__all__ = ["Masked", "masked"]

Traced = Callable[[Tensor, Tensor, Sequence[int]], Tensor]


class Masked:
    """A prompt's run, copies of which attend along fewer edges.

    Args:
        begun: The same run, for traces.

    Raises:
        InputError: The stack is none that can be replayed.
    """

    WAY = "from the first changed block and position, by masks"

    def __init__(self, begun: Resumed) -> None:
        self.model, self.side = begun.model, begun.side
        run = observe(self.model, joined(self.side, self.side), [self.side.last] * 2)
        self.replay = Replay(self.model, self.side, run)
        self.replay.alone = [without_data(call) for call in begun.calls]

    @torch.no_grad()
    def logits(self, edges: Mapping[int, Tensor], position: int) -> Tensor:
        """The measured logits of some copies, ``[copies, vocab]``.

        Args:
            edges: By block, ``[copies, heads or 1, query, key]``, True where an edge is cut.
            position: The first position that attends to less.
        """
        replay, start = self.replay, min(edges)
        cut = replay.last_cuts(start)[min(position, self.side.last)]
        times = len(edges[start])
        rows = torch.arange(cut, replay.length).repeat(times)
        copies = torch.arange(times).repeat_interleave(replay.length - cut)
        hidden = replay.run.entering[start][:1, cut:].expand(times, -1, -1)
        replay.edges = edges
        try:
            return replay.logits([Entry(start, hidden, copies, rows)], cut).float()
        finally:
            replay.edges = {}

    def agrees(self, layers: Sequence[int], traced: Traced) -> bool:
        """Whether masks are cuts in a trace, where the second half of the prompt does not attend to the first."""
        length = self.side.length
        queries, keys = torch.arange(length // 2, length), torch.arange(length // 2)
        edges = torch.zeros(2, 1, length, length, dtype=torch.bool)
        edges[:, :, queries[:, None], keys] = True
        ours = self.logits(dict.fromkeys(layers, edges), int(queries[0]))
        dtype = next(self.model.embed_tokens._module.parameters()).dtype
        return agree(ours, traced(queries, keys, layers), dtype)


def masked(begun: Resumed, layers: Sequence[int], traced: Traced) -> tuple[Masked | None, dict[str, str]]:
    """Cuts by masks, once they agree with cuts in a trace.

    Args:
        begun: The run.
        layers: The blocks in which edges are cut.
        traced: Gives the logits of two copies, cut between some queries and keys in some blocks.

    Returns:
        ``None`` where they do not; and how cells are run then, with the reason.
    """
    # Whatever a stack does that was not foreseen, a trace is right.
    try:
        made = Masked(begun)
        about = ("masked", tuple(layers), made.replay.about, state_of(made.model))
        if about not in known(made.model):
            # The last block is run in another way where nothing was run before it.
            known(made.model)[about] = all(made.agrees(span, traced) for span in (layers, layers[-1:]))
        if not known(made.model)[about]:
            raise InputError("a trial by masks did not agree with a trace")
    except Exception as error:
        return None, {"cells": begun.way, "because": f"{type(error).__name__}: {error}"}
    return made, {"cells": made.WAY}
