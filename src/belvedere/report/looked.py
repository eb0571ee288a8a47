"""What the tokens of a prompt attend to in its pictures: the rows of the attention patterns that a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere.components import Standard
from belvedere.errors import Unavailable
from belvedere.experiments.patterns import Patterns, by_reason
from belvedere.experiments.runs import Side

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Looks", "looks_of"]

PATH = "layers.attention_probabilities"
#: How many numbers of the prompt's tokens are held head by head; more are held as means over the heads.
HELD = 4_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Looks:
    """Attention from tokens of a prompt to the cells of its pictures.

    Args:
        answer: For each block with a pattern, ``[heads, cells]`` from the prompt's last position, where the answer is
            read off.
        tokens: For each block with a pattern, ``[queries, heads, cells]`` from each of `queries`; one head, their mean,
            where all would be more than a page can hold.
        queries: The positions of the prompt's tokens that attend to a picture at all.
        by_head: Whether `tokens` has every head.
        lacking: Why the other blocks have no pattern.
    """

    answer: Mapping[int, Tensor]
    tokens: Mapping[int, Tensor]
    queries: tuple[int, ...]
    by_head: bool
    lacking: Mapping[int, str]

    @property
    def reasons(self) -> dict[str, str]:
        """Why some blocks have no pattern, by the blocks that share a reason."""
        return by_reason(self.lacking)


@torch.no_grad()
def looks_of(model: StandardizedTransformer, side: Side, queries: tuple[int, ...], cells: Tensor | None) -> Looks:
    """Read the patterns of every block in one run.

    Args:
        model: The model.
        side: The input.
        queries: The positions that are asked about.
        cells: The positions of the pictures' tokens; ``None`` where the keys are the pictures' own, beside the prompt.

    Raises:
        Unavailable: No block has a pattern.
    """
    hosts, lacking = _hosts(model, beside=cells is None)
    by_head = _size(model, side, hosts, len(queries), cells) <= HELD
    with model.trace(**side.encoding):
        held = nnsight.save([_rows(host, side.last, queries, cells, by_head) for host in hosts.values()])
    answer = {number: one[0] for number, one in zip(hosts, held, strict=True)}
    tokens = {number: one[1] for number, one in zip(hosts, held, strict=True)}
    seen = torch.stack([one.flatten(1).ne(0).any(1) for one in tokens.values()]).any(0)
    return Looks(
        answer=answer,
        tokens={number: one[seen] for number, one in tokens.items()},
        queries=tuple(place for place, kept in zip(queries, seen.tolist(), strict=True) if kept),
        by_head=by_head,
        lacking=lacking,
    )


def _size(
    model: StandardizedTransformer, side: Side, hosts: Mapping[int, Standard], queries: int, cells: Tensor | None
) -> int:
    heads = sum(host.axis_size("heads") for host in hosts.values())
    return heads * queries * (sum(side.pictures.patches) if cells is None else len(cells))


def _rows(host: Any, last: int, queries: tuple[int, ...], cells: Tensor | None, by_head: bool) -> tuple[Tensor, Tensor]:
    """Inside a trace: the rows of one block's pattern, ``[heads, cells]`` and ``[queries, heads, cells]``."""
    pattern = host.attention_probabilities[0]
    held = pattern if cells is None else pattern[..., cells.to(pattern.device)]
    asked = held[:, list(queries)].float()
    tokens = asked if by_head else asked.mean(0, keepdim=True)
    return held[:, last].float().cpu(), tokens.transpose(0, 1).cpu()


def _hosts(model: StandardizedTransformer, *, beside: bool) -> tuple[Mapping[int, Standard], Mapping[int, str]]:
    """The attention of each block whose pattern reaches the pictures, and why the others do not."""
    if not beside:
        patterns = Patterns.find(model, "text", None)
        return patterns.hosts, patterns.lacking
    hosts: dict[int, Standard] = {}
    lacking: dict[int, str] = {}
    for number, block in enumerate(model.layers):
        part = vars(block).get("cross_attn")
        if not isinstance(part, Standard):
            lacking[number] = "this block attends to the text alone; others attend to the pictures"
            continue
        reason = part.values()["attention_probabilities"].reason(part)
        if reason is None:
            hosts[number] = part
        else:
            lacking[number] = reason
    if not hosts:
        raise Unavailable(PATH, next(iter(lacking.values()), "this stack has no blocks"))
    return hosts, lacking
