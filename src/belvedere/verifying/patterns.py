"""Clause 6: a pattern times the values that it mixes is what the heads read out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from belvedere.components import Standard
from belvedere.components.layer import Block
from belvedere.verifying.bench import Bench, compared, worst
from belvedere.verifying.clause import Answer, answered, listed, silent
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import blocks_of, parts_of

__all__ = ["patterns"]

#: Roundings that a kernel may put between a pattern and what it mixes, and for each unit of a score.
ROUNDINGS, PER_SCORE = 32, 8


def patterns(bench: Bench) -> Answer:
    """Every attention of text and tower, one after the other in one trace; of a packed tower, segment by segment."""
    made = {(id(one.host), one.name) for one in bench.made}
    hosts: list[tuple[Block, Standard]] = []
    for block in (*blocks_of(bench.model.vision), *bench.model.layers):
        for part in parts_of(block):
            names = ("attention_probabilities", "segment_probabilities")
            if any((id(part), name) in made for name in names) and (id(part), "attention_head_outputs") in made:
                hosts.append((block, part))
    if not hosts:
        return silent("no block of this model has a softmax attention whose pattern reads")

    def mix() -> list[Difference]:
        return [one for _, host in hosts for one in _attention(host, (id(host), "attention_probabilities") in made)]

    blocks = [block for block, _ in hosts]
    how = bench.model._module.config._attn_implementation
    checked = (
        f"{listed(blocks)}, attention {how}; allowed are {ROUNDINGS} roundings and {PER_SCORE} for each unit of a score"
    )
    return answered(checked, bench.trace(mix))


def _attention(host: Any, whole: bool) -> list[Difference]:
    """One attention, inside a trace."""
    if whole:
        values = host.attention_values
        scores = host.attention_scores
        # A position that attends to nothing has a row that is the kernel's choice.
        seen = scores > max(torch.finfo(scores.dtype).min, torch.finfo(torch.float32).min) / 2
        largest = float(scores.masked_fill(~seen, 0).abs().amax())
        rows = seen.any(-1)
        pattern = host.attention_probabilities
        heads = host.attention_head_outputs
        return _mixed(host.name, pattern, values, heads, largest, rows)
    # No tensor of the forward is the scores of a packed row; none is above the longest query times the longest key.
    queries = host.attention_queries.float().norm(dim=-1).amax()
    keys = host.attention_keys.float().norm(dim=-1).amax()
    values = host.attention_values
    largest = float(queries * keys * host._module.scaling)
    cut = host.segment_probabilities
    heads = host.attention_head_outputs
    found, start = [], 0
    for number, pattern in enumerate(cut):
        run = slice(start, start + pattern.shape[-1])
        own = f"{host.name}, segment {number}"
        found += _mixed(own, pattern[None], values[:, :, run], heads[:, :, run], largest, None)
        start = run.stop
    if start != heads.shape[2]:
        what = f"the segments have {start} patches, the row has {heads.shape[2]}"
        found.append(Difference(where=host.name, what=what))
    return found


def _mixed(
    where: str, pattern: Tensor, values: Tensor, heads: Tensor, largest: float, rows: Tensor | None
) -> list[Difference]:
    """A pattern times the values against the head outputs, on the rows that attend to something."""
    values = values.repeat_interleave(pattern.shape[1] // values.shape[1], dim=1)
    mixed, size = pattern @ values, pattern.abs() @ values.abs()
    if mixed.shape != heads.shape:
        return [Difference(where=where, what=f"mixes {tuple(mixed.shape)}, the heads read {tuple(heads.shape)}")]
    if rows is not None:
        rows = rows.expand(mixed.shape[:-1])
        mixed, size, heads = mixed[rows], size[rows], heads[rows]
    # The softmax of an eager attention is in single precision, whatever the model's type.
    rounding = max(torch.finfo(heads.dtype).eps, torch.finfo(torch.float32).eps)
    allowed = (ROUNDINGS + PER_SCORE * largest) * rounding * size.float()
    what = "the pattern times the values is not what the heads read out, apart"
    return compared(where, what, worst(mixed.float(), heads.float(), allowed))
