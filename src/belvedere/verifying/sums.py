"""Clause 2: what a block's parts add, and what enters it, are what leaves it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from belvedere.components.layer import Block
from belvedere.components.scaled import ScaledLayer
from belvedere.verifying.bench import Bench, compared, worst
from belvedere.verifying.clause import Answer, answered, listed, silent
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place, blocks_of, parts_of

__all__ = ["additivity"]

#: The values of a block that are added to its stream.
ADDED = ("attention_output", "mlp_output", "per_layer_output")
#: How many roundings each term may pass on its way into the sum.
ROUNDINGS = 4


def additivity(bench: Bench) -> Answer:
    """Every block of text and tower, one after the other in one trace, of which numbers alone are kept."""
    made = set(map(id, (one.found for one in bench.made)))
    chosen, notes = [], []
    for block in (*blocks_of(bench.model.vision), *bench.model.layers):
        reasons = _reasons(block, bench)
        if reasons:
            notes.append(f"{block.name} has no additive pair: {reasons[0]}")
        else:
            chosen.append(block)
    if not chosen or not made:
        return silent("; ".join(notes) or "this model has no blocks")

    def add() -> list[Difference]:
        return [one for block in chosen for one in _block(block)]

    checked = f"{listed(chosen)}; a sum may differ by {ROUNDINGS} roundings of its terms"
    return answered(checked, bench.trace(add), _folded(notes))


def _terms(block: Block) -> list[Place]:
    """What is added to the stream, in the order of the forward."""
    hosts = (*parts_of(block), block)
    places = [Place(host, host.values()[name]) for host in hosts for name in ADDED if name in host.values()]
    return [one for one in places if one.reason is None]


def _reasons(block: Block, bench: Bench) -> list[str]:
    """Why a block has no sum: a part that says why it does not read, or an input that passes the block by."""
    made = {(id(one.host), one.name) for one in bench.made}
    ends = [Place(block, block.values()[name]) for name in ("layer_input", "layer_output")]
    parts = [
        Place(part, part.values()[name]) for part in parts_of(block) for name in ADDED[:2] if name in part.values()
    ]
    found = [one.reason for one in (*ends, *parts) if one.reason is not None]
    idle = [one for one in (*ends, *parts) if one.reason is None and (id(one.host), one.name) not in made]
    return [*map(str, found), *("this input does not run it" for _ in idle)]


def _block(block: Block) -> list[Difference]:
    """The block's sum, inside a trace."""
    ends: Any = block
    entering = ends.layer_input
    total, size = _exact(entering), _exact(entering).abs()
    for term in _terms(block):
        added = _exact(term.read())
        total, size = total + added, size + added.abs()
    leaving = ends.layer_output
    if isinstance(block, ScaledLayer):
        gain = _exact(block._module.layer_scalar)
        total, size = total * gain, size * gain.abs()
    if total.shape != leaving.shape:
        what = f"what is added is {tuple(total.shape)}, what leaves is {tuple(leaving.shape)}"
        return [Difference(where=block.name, what=what)]
    allowed = ROUNDINGS * torch.finfo(leaving.dtype).eps * (size + _exact(leaving).abs())
    what = f"layer_input + {' + '.join(one.name for one in _terms(block))} is not layer_output, apart"
    return compared(block.name, what, worst(total, _exact(leaving), allowed))


def _exact(held: Tensor) -> Tensor:
    """A tensor in a type in which its sums are as good as exact."""
    return held.double() if held.dtype in (torch.float32, torch.float64) else held.float()


def _folded(notes: list[str]) -> list[str]:
    """Notes of several blocks that say the same, once."""
    said: dict[str, list[str]] = {}
    for note in notes:
        block, _, reason = note.partition(" has ")
        said.setdefault(reason, []).append(block)
    return [f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} {reason}" for reason, names in said.items()]
