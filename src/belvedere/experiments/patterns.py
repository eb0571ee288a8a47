"""The attention patterns of a stack: which blocks have one that can be read and written, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from belvedere.components import NoVision, Standard
from belvedere.components.layer import MIXERS
from belvedere.components.standard import blocks
from belvedere.errors import InputError, Unavailable
from belvedere.experiments.numbers import Layers, blocks_asked

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Patterns", "by_reason", "shut", "softmax_of", "without"]

#: The value that holds the pattern, by stack, and where the stack's blocks are.
VALUES = {"text": "attention_probabilities", "vision": "segment_probabilities"}
#: What the softmax is taken of, where a block serves it.
SCORES = "attention_scores"
PREFIX = {"text": "layers", "vision": "vision.layers"}
BESIDE = (
    "this block attends to picture features beside the prompt, so its keys are no positions of it; write "
    "cross_attn.attention_probabilities inside a trace"
)


def by_reason(lacking: Mapping[int, str]) -> dict[str, str]:
    """Why some blocks lack something, by the blocks that share a reason."""
    shared: dict[str, list[int]] = {}
    for number, reason in lacking.items():
        shared.setdefault(reason, []).append(number)
    return {blocks(numbers): reason for reason, numbers in shared.items()}


@dataclass(frozen=True, kw_only=True)
class Patterns:
    """The softmax attentions of a stack.

    Args:
        stack: ``"text"`` or ``"vision"``.
        hosts: The attention of each chosen block that has a pattern, by block number.
        lacking: Why the others have none.
        packed: Whether one row holds the pictures of all prompts, so that a block's scores are of all of them.
    """

    stack: str
    hosts: Mapping[int, Standard]
    lacking: Mapping[int, str] = field(default_factory=dict)
    packed: bool = False

    @classmethod
    def find(cls, model: StandardizedTransformer, stack: str, layers: Layers | None) -> Patterns:
        """The patterns of a stack's blocks.

        Args:
            model: The model.
            stack: ``"text"`` or ``"vision"``.
            layers: The blocks; by default all that have a pattern.

        Raises:
            InputError: There is no such stack or block.
            Unavailable: No block has a pattern, or one that was asked for has none.
        """
        if stack not in VALUES:
            raise InputError(f"stack={stack!r} is neither 'text' nor 'vision'")
        path = f"{PREFIX[stack]}.{VALUES[stack]}"
        if stack == "vision" and isinstance(model.vision, NoVision):
            raise Unavailable(path, str(model.vision.no_images()))
        listed = list(model.layers if stack == "text" else model.vision.layers)
        found = {number: _attention(block, VALUES[stack]) for number, block in enumerate(listed)}
        hosts = {number: held for number, held in found.items() if isinstance(held, Standard)}
        lacking = {number: held for number, held in found.items() if isinstance(held, str)}
        if layers is not None:
            wanted = blocks_asked(layers, len(found), path)
            refused = [number for number in wanted if number in lacking]
            if refused:
                where = path.replace("layers.", f"layers[{refused[0]}].", 1)
                raise Unavailable(where, f"{lacking[refused[0]]}; have one: {blocks(list(hosts)) or 'none'}")
            hosts, lacking = {number: hosts[number] for number in wanted}, {}
        if not hosts:
            raise Unavailable(path, next(iter(lacking.values()), "this stack has no blocks; read its input"))
        packed = stack == "vision" and _served(cast("Standard", model.vision), "segments")
        return cls(stack=stack, hosts=hosts, lacking=lacking, packed=packed)

    @property
    def reasons(self) -> dict[str, str]:
        """Why some blocks have no pattern, by the blocks that share a reason."""
        return by_reason(self.lacking)

    def read(self, layer: int) -> list[tuple[int, Tensor]]:
        """Inside a trace: a block's patterns, each ``[heads, query, key]`` with the position at which it begins.

        Positions are counted on over the rows of a batch, and over the segments of a tower.
        """
        host: Any = self.hosts[layer]
        held = list(host.attention_probabilities if self.stack == "text" else host.segment_probabilities)
        return list(zip(accumulate((one.shape[1] for one in held), initial=0), held, strict=False))

    def write(self, layer: int, patterns: list[Tensor]) -> None:
        """Inside a trace: give a block other patterns, one for each that `read` gave."""
        host: Any = self.hosts[layer]
        if self.stack == "text":
            host.attention_probabilities = torch.stack(patterns)
        else:
            host.segment_probabilities = patterns

    def has_scores(self, layer: int) -> bool:
        """Whether a block serves what its softmax is taken of, of each prompt by itself."""
        return not self.packed and _served(self.hosts[layer], SCORES)

    def scores(self, layer: int) -> list[tuple[int, Tensor]]:
        """Inside a trace: what a block's softmax is taken of, as `read` gives patterns; a sink may stand last."""
        host: Any = self.hosts[layer]
        held = list(host.attention_scores)
        return list(zip(accumulate((one.shape[1] for one in held), initial=0), held, strict=False))

    def write_scores(self, layer: int, scores: list[Tensor]) -> None:
        """Inside a trace: give a block other scores, one for each that `scores` gave."""
        host: Any = self.hosts[layer]
        host.attention_scores = torch.stack(scores)


def shut(scores: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Scores with some edges cut, so that the softmax shares out what is left, in its own precision.

    Args:
        scores: ``[heads, query, key]``, a sink behind the keys where there is one.
        edges: ``[heads, query, key]``, True where an edge is cut.

    Returns:
        The scores, and ``[heads, query, 1]``: the rows of which nothing is left. These are as they were.
    """
    lowest = torch.finfo(scores.dtype).min
    cut = torch.nn.functional.pad(edges, (0, scores.shape[-1] - edges.shape[-1]))
    # A mask adds the lowest number of the model's type, or of single precision.
    closed = scores <= max(lowest, torch.finfo(torch.float32).min) / 2
    bare = edges.any(-1, keepdim=True) & (cut | closed).all(-1, keepdim=True)
    return scores.masked_fill(cut & ~bare, -torch.inf), bare


def softmax_of(scores: Tensor, bare: Tensor) -> Tensor:
    """The pattern ``[heads, query, key]`` of scores, a sink apart, with some rows empty."""
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide.softmax(-1)[..., : scores.shape[-2]].masked_fill(bare, 0).to(scores.dtype)


def without(pattern: Tensor, edges: Tensor, *, renormalize: bool) -> Tensor:
    """A pattern with some edges cut.

    Args:
        pattern: ``[heads, query, key]``.
        edges: ``[heads, query, key]`` or what broadcasts to it, True where an edge is cut.
        renormalize: Whether what is left of a row is scaled up to what the row summed to, as a mask under the softmax
            does. A row of which nothing is left stays zero.
    """
    left = pattern.masked_fill(edges, 0)
    if not renormalize:
        return left
    wide = torch.float64 if pattern.dtype == torch.float64 else torch.float32
    rest, whole = (held.to(wide).sum(-1, keepdim=True) for held in (left, pattern))
    # Some heads attend to a sink too, which stands in no column: what a row lacks to 1 is the sink's, and not cut.
    sink = 1 - whole
    sink = torch.where(sink > 4 * torch.finfo(pattern.dtype).eps, sink, 0)
    scale = torch.where(rest > 0, 1 / (rest + sink).clamp_min(torch.finfo(wide).tiny), 0)
    scaled = (left.to(wide) * scale).to(pattern.dtype)
    return torch.where(edges.any(-1, keepdim=True), scaled, pattern)


def _served(host: Standard, name: str) -> bool:
    value = host.values().get(name)
    return value is not None and value.reason(host) is None


def _attention(block: Any, value: str) -> Standard | str:
    """A block's softmax attention, or the reason why it has no pattern over its stack's positions."""
    for name in MIXERS:
        part = vars(block).get(name)
        if not isinstance(part, Standard):
            continue
        if name == "cross_attn":
            return BESIDE
        entry = part.values().get(value)
        if entry is None:
            return f"{type(part._module).__name__} has no {value}; read what it adds, attention_output"
        return entry.reason(part) or part
    return "this block has no attention; read what it adds to the stream"
