"""Where a position looks: its row of every block's attention pattern, with what each key is and shows.

Of text positions the keys are the prompt's tokens, of the tower's rows they are the tower's. A row is read out of the
call's own queries and keys, whatever kernel the model runs, and no other row is made: one position of a prompt of 4,000
tokens costs 4,000 numbers a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import nnsight
import torch
from torch import Tensor

from belvedere.components import NoVision, Standard
from belvedere.components.pattern import PatternValue
from belvedere.components.standard import blocks
from belvedere.errors import InputError, Unavailable
from belvedere.experiments import pictured
from belvedere.experiments.attentions import TEXT, AttentionResult
from belvedere.experiments.numbers import Layers, blocks_asked
from belvedere.experiments.patterns import VALUES, Patterns
from belvedere.experiments.runs import Side, encoded, layout_of
from belvedere.experiments.settled import experiment
from belvedere.experiments.where import Where, model_name, positions_of
from belvedere.geometry import KINDS, PatchLayout

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Keys", "attention", "keys_of"]

#: The stack of the blocks that attend to pictures beside the prompt.
CROSS = "cross"


@experiment
def attention(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    positions: Where = "last",
    *,
    layers: Layers | None = None,
    stack: str = "text",
) -> AttentionResult:
    """Where positions look, at each block and head.

    ::

        attention(model, {"text": prompt, "images": [image]}, layers=12).overlay()

    Args:
        model: The model.
        shown: The input, as `trace` takes it by keyword: an encoding, or ``{"text": prompt, "images": [picture]}``.
        positions: Who looks: ``"last"``, the position that writes the next token, by default; ``"text"``, ``"image"``,
            ``"all"``, numbers, or `Inside` a box; in the tower ``"other"`` (CLS and the like), ``"patches"``, numbers.
        layers: The blocks; by default all that have a pattern.
        stack: ``"text"``, ``"vision"``, or ``"cross"`` for the blocks of a text that attend to pictures beside the
            prompt (Mllama's), whose keys are the tower's rows.

    Returns:
        A row of the pattern for each block, position and head, with what the keys are.

    Raises:
        InputError: There is no such position or block, or the input shows a video.
        Unavailable: No block has a pattern, or one that was asked for has none.
    """
    patterns = _cross(model, layers) if stack == CROSS else Patterns.find(model, stack, layers)
    side = encoded(model, shown, "shown")
    if side.pictures.videos:
        raise InputError("the input shows a video, and attention is laid over pictures; read attention_probabilities")
    tower = stack == "vision"
    queries = positions_of(model, side, positions, tower=tower)
    keys = _attended(model, side) if stack == CROSS else keys_of(model, side, tower=tower)
    return AttentionResult(
        attention=_rows(model, side, patterns, queries, len(keys.images)),
        layers=tuple(patterns.hosts),
        queries=queries,
        texts=keys.texts,
        boxes=keys.boxes,
        images=keys.images,
        kinds=keys.kinds,
        stack=stack,
        skipped=patterns.reasons,
        settings={"model": model_name(model)},
        pictures=side.shown,
        asking=_called(model, side, queries) if stack == CROSS else (),
        **pictured.of([side]),
    )


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What may be looked at: the positions of a prompt, or the rows of a tower.

    Args:
        texts: By key, the prompt's token as it is written, nothing for one of a picture; empty without a tokenizer, and
            in the tower.
        boxes: ``[key, 4]`` in the original picture's pixels; NaN where a key shows none, or where that is not known.
        images: ``[key]``, the picture's number; -1 for text.
        kinds: ``[key]``, the place in `belvedere.geometry.KINDS`; -1 for text.
    """

    texts: tuple[str, ...]
    boxes: Tensor
    images: Tensor
    kinds: Tensor


def keys_of(model: StandardizedTransformer, side: Side, *, tower: bool = False) -> Keys:
    """What each position of a prompt, or each row of the tower, is and shows.

    Args:
        model: The model.
        side: The input.
        tower: Whether the tower's rows are meant.

    Raises:
        InputError: The tower's rows are meant, and the input shows no picture.
    """
    if tower:
        rows = layout_of(model, side).patches
        return Keys(texts=(), boxes=rows.source_box.double(), images=rows.image, kinds=rows.kind)
    boxes = torch.full((side.length, 4), torch.nan, dtype=torch.float64)
    images, kinds = torch.full((side.length,), -1), torch.full((side.length,), TEXT)
    layout = _layout(model, side)
    if layout is not None and len(layout.positions):
        places = layout.positions[:, 1]
        boxes[places] = layout.tokens.source_box.double()
        images[places], kinds[places] = layout.tokens.image, layout.tokens.kind
    return Keys(
        texts=pictured.by_token(model, side, range(side.length), images), boxes=boxes, images=images, kinds=kinds
    )


def _cross(model: StandardizedTransformer, layers: Layers | None) -> Patterns:
    """The blocks that attend to pictures beside the prompt."""
    path = "layers.cross_attn.attention_probabilities"
    listed = [vars(block).get("cross_attn") for block in model.layers]
    hosts = {number: held for number, held in enumerate(listed) if isinstance(held, Standard)}
    wanted = list(hosts) if layers is None else blocks_asked(layers, len(listed), path)
    lacking = [number for number in wanted if number not in hosts]
    if lacking or not hosts:
        where = f"block {lacking[0]} attends" if lacking else "this model's blocks attend"
        way = f"blocks with cross_attn: {blocks(list(hosts))}" if hosts else "pass stack='text'"
        raise Unavailable(path, f"{where} to the prompt alone; {way}")
    return Patterns(stack=CROSS, hosts={number: hosts[number] for number in wanted})


def _attended(model: StandardizedTransformer, side: Side) -> Keys:
    """What the keys of such blocks are: rows of the tower, without what pads each tile."""
    layout = layout_of(model, side)
    own, rows = layout.arrangements["image_features"], layout.arrangements["patches"]
    boxes = torch.full((len(own), 4), torch.nan, dtype=torch.float64)
    images, kinds = torch.full((len(own),), -1), torch.full((len(own),), KINDS.index("cls"))
    for at, from_ in zip(own.placed, rows.placed, strict=True):
        boxes[at] = layout.patches.source_box[from_].double()
        images[at], kinds[at] = layout.patches.image[from_], layout.patches.kind[from_]
    return Keys(texts=(), boxes=boxes, images=images, kinds=kinds)


def _called(model: StandardizedTransformer, side: Side, queries: tuple[int, ...]) -> tuple[str, ...]:
    """What positions of a prompt are called, by number and token."""
    texts = pictured.by_token(model, side, queries, torch.full((len(queries),), -1))
    return tuple(pictured.labels_of(queries, texts))


def _layout(model: StandardizedTransformer, side: Side) -> PatchLayout | None:
    shows = side.pictures.count and not side.pictures.videos and not isinstance(model.vision, NoVision)
    return layout_of(model, side) if shows else None


@torch.no_grad()
def _rows(
    model: StandardizedTransformer, side: Side, patterns: Patterns, queries: tuple[int, ...], keys: int
) -> Tensor:
    """The rows of the pattern: ``[layer, query, head, key]`` in float32, on the host."""
    read = _of_tower if patterns.stack == "vision" else _of_text
    rows = torch.tensor(queries)
    with model.trace(**side.encoding):
        held: list[Tensor] = nnsight.save([read(patterns, layer, rows, keys) for layer in patterns.hosts])
    heads = {one.shape[1] for one in held}
    if len(heads) > 1:
        raise Unavailable(
            f"{patterns.stack} attention",
            f"the blocks have {' and '.join(map(str, sorted(heads)))} heads, which are no one tensor; read blocks that "
            "have as many (`layers=`)",
        )
    return torch.stack(held)


def _of_text(patterns: Patterns, layer: int, rows: Tensor, keys: int) -> Tensor:
    """Inside a trace: ``[query, head, key]``."""
    host = patterns.hosts[layer]
    value = cast("PatternValue", host.values()[VALUES["text"]])
    return value.of_rows(host, rows)[0].transpose(0, 1).float().cpu()


def _of_tower(patterns: Patterns, layer: int, rows: Tensor, keys: int) -> Tensor:
    """Inside a trace: the same of a tower, where a row looks at its own segment and no other key."""
    parts = patterns.read(layer)
    found = torch.zeros(len(rows), parts[0][1].shape[0], keys)
    for start, pattern in parts:
        count = pattern.shape[-1]
        inside = (rows >= start) & (rows < start + count)
        own = pattern[:, (rows[inside] - start).to(pattern.device)]
        found[inside, :, start : start + count] = own.transpose(0, 1).float().cpu()
    return found
