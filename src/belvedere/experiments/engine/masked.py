"""Cuts of attention edges by the masks of a replay: from the first changed block and the first changed position on.

Under a softmax a cut whose rest is scaled up is a mask. Where the text's blocks are called with masks, or causally with
none, a replay needs no trace to make one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from belvedere.experiments.engine.observed import observe, without_data
from belvedere.experiments.engine.replay import Entry, Replay
from belvedere.experiments.engine.trial import agree
from belvedere.experiments.engine.trust import known, state_of
from belvedere.experiments.runs import joined

if TYPE_CHECKING:
    from belvedere.experiments.engine.resumed import Resumed

__all__ = ["Masked", "masked"]


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


def masked(begun: Resumed, layers: Sequence[int], traced: Callable[[Tensor, Tensor], Tensor]) -> Masked | None:
    """Cuts by masks, once they agree with cuts in a trace; ``None`` where they do not.

    Args:
        begun: The run.
        layers: The blocks in which edges are cut.
        traced: ``traced(queries, keys)`` gives the logits of two copies, cut between these in all of the blocks.
    """
    # Whatever a stack does that was not foreseen, a trace is right.
    try:
        made = Masked(begun)
        about = ("masked", tuple(layers), made.replay.about, state_of(made.model))
        if about not in known(made.model):
            length = made.side.length
            queries, keys = torch.arange(length // 2, length), torch.arange(length // 2)
            edges = torch.zeros(2, 1, length, length, dtype=torch.bool)
            edges[:, :, queries[:, None], keys] = True
            ours = made.logits(dict.fromkeys(layers, edges), int(queries[0]))
            dtype = next(made.model.embed_tokens._module.parameters()).dtype
            known(made.model)[about] = agree(ours, traced(queries, keys), dtype)
        return made if known(made.model)[about] else None
    except Exception:
        return None
