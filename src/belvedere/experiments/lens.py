"""The logit lens: what each position of the stream would say if the model ended there.

A block's stream is put through the model's own final norm and head, as the last block's is ("interpreting GPT: the
logit lens", nostalgebraist 2020). Over the image tokens it gives words for parts of a picture (Neo et al., "Towards
Interpreting Visual Information Processing in Vision-Language Models", 2025).

`tower_lens` goes one step further back: the tower ends after a block, and what the projector makes of that stream is
read, at once or behind some blocks of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere.errors import InputError, Unavailable
from belvedere.experiments import pictured
from belvedere.experiments.hooks import is_hooked
from belvedere.experiments.numbers import Layers, blocks_asked, whole
from belvedere.experiments.progress import Bar
from belvedere.experiments.readings import LensResult, words_of
from belvedere.experiments.runs import Side, encoded
from belvedere.experiments.settled import experiment
from belvedere.experiments.sites import Site
from belvedere.experiments.tokens import numbers_of
from belvedere.experiments.where import Where, boxes_of, model_name, positions_of

if TYPE_CHECKING:
    from belvedere.staged import State
    from belvedere.standardized import StandardizedTransformer

__all__ = ["lens", "tower_lens"]

#: How many positions are projected at once: their logits are held for the whole vocabulary.
ROWS = 64


@experiment
def lens(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    *,
    positions: Where = "image",
    layers: Layers | None = None,
    value: str = "layers.layer_output",
    top: int = 5,
    watch: int | str | Sequence[int | str] = (),
    progress: bool | None = None,
) -> LensResult:
    """What positions read as at each text block.

    Args:
        model: The model.
        shown: The input, as `trace` takes it by keyword: an encoding, or ``{"text": prompt, "images": [picture]}``.
        positions: Which positions: the image tokens by default; ``"text"``, ``"last"``, ``"all"``, numbers, or
            `Inside` a box.
        layers: The text blocks; by default all.
        value: What is read: a value of the text blocks with positions. Of ``attention_output`` or ``mlp_output`` the
            lens reads a term of the stream as if it were the whole.
        top: How many words are kept of each.
        watch: Tokens, by number or word, whose probability is kept everywhere, such as the answer's.
        progress: Whether to show a bar; by default where someone is watching.

    Returns:
        The words and their probabilities. At the last block's ``layer_output`` they are the model's own.

    Raises:
        InputError: There is no such block, position or value.
        Unavailable: The checkpoint does not have the value.
    """
    if not value.startswith("layers."):
        raise InputError(f"{value!r} is no value of the text's blocks; the tower's are read by `tower_lens`")
    site = Site.find(model, value, layers)
    if site.name == "layer_output":
        _refuse_hooked(site)
    side = encoded(model, shown, "shown")
    places = positions_of(model, side, positions)
    streams = _streams(model, side, site, places)
    return _read(model, side, streams, places, value=value, top=top, watch=watch, progress=progress)


@experiment
def tower_lens(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    *,
    layers: Layers | None = None,
    through: int | None = None,
    top: int = 5,
    watch: int | str | Sequence[int | str] = (),
    progress: bool | None = None,
) -> LensResult:
    """What the image tokens read as if the tower ended after each of its blocks.

    The blocks behind it are skipped: its stream stands in for the later ones that the wrapper reads. The projector was
    not trained on it, so a word that appears is evidence, and a word that does not is none.

    Args:
        model: The model.
        shown: The input, as for `lens`; pictures, no videos.
        layers: The tower's blocks; by default all that the wrapper reads from.
        through: A text block at whose ``layer_output`` the features are read; by default they are read as they enter
            the text, where few models hold words.
        top: How many words are kept of each.
        watch: Tokens, by number or word, whose probability is kept everywhere.
        progress: Whether to show a bar.

    Returns:
        The words and their probabilities, a row per block of the tower.

    Raises:
        InputError: It shows no picture, or there is no such block.
        Unavailable: The tower cannot be run by hand, or its streams differ in shape.
    """
    side = encoded(model, shown, "shown")
    places = positions_of(model, side, "image")
    site = None if through is None else Site.find(model, "layers.layer_output", [through])
    states = _ended(model, side, layers)
    name = "vision.layers.layer_output" + ("" if site is None else f" through layers[{through}]")
    streams: dict[int, Tensor] = {}
    with Bar(name, len(states), progress) as bar, torch.no_grad():
        for number, state in states.items():
            streams[number] = _features(model, side, state, site, places)
            bar.advance(1)
    return _read(model, side, streams, places, value=name, top=top, watch=watch, progress=False)


def _refuse_hooked(site: Site) -> None:
    """A block whose stream is changed behind it, where it is read before."""
    hooked = [number for number, host in site.hosts.items() if is_hooked(host._module, behind=True)]
    if hooked:
        raise InputError(
            f"block {hooked[0]} has a forward hook that is not Belvedere's, and its layer_output is read before that; "
            "leave the block out of `layers`, or read value='layers.layer_input' of the next one"
        )


@torch.no_grad()
def _streams(model: StandardizedTransformer, side: Side, site: Site, places: tuple[int, ...]) -> dict[int, Tensor]:
    rows = torch.tensor(places)
    with model.trace(**side.encoding):
        held: dict[int, Tensor] = nnsight.save({layer: site.rows(layer, rows) for layer in site.hosts})
    return held


def _ended(model: StandardizedTransformer, side: Side, layers: Layers | None) -> dict[int, State]:
    """For each block of the tower, a state as if the tower ended behind it."""
    staged = model.vision.staged
    with torch.no_grad():
        state = staged.embed(**side.encoding)
        count, last = len(state.calls), max(state.reads)
        wanted = list(range(last + 1)) if layers is None else blocks_asked(layers, count, "the tower")
        found = {}
        for number in range(count):
            state = staged.encode(state, stop=number + 1)
            found[number] = state
    shapes = {number: tuple(found[number].hidden.shape) for number in {*wanted, *(n for n in state.reads if n >= 0)}}
    if len(set(shapes.values())) > 1:
        one, other = min(shapes), max(shapes)
        raise Unavailable(
            "vision.layers.layer_output",
            f"the stream of this tower is {list(shapes[one])} behind block {one} and {list(shapes[other])} behind "
            f"block {other}, so one cannot stand in for the other; read blocks of one shape (`layers=`)",
        )
    known = state.kept
    ends: dict[int, State] = {}
    for number in wanted:
        held = found[number].hidden
        read = {block: known[block] if block <= number else held for block in state.reads}
        ends[number] = replace(state, hidden=held, block=count, streams=read)
    return ends


def _features(
    model: StandardizedTransformer, side: Side, state: State, site: Site | None, places: tuple[int, ...]
) -> Tensor:
    """What the projector makes of a state, as it enters the text or behind a text block: ``[image_tokens, hidden]``."""
    staged = model.vision.staged
    if site is not None:
        with staged.answered(state):
            (held,) = _streams(model, side, site, places).values()
        return held
    if model.family.facts.scatter is None:
        raise Unavailable(
            "vision.image_features",
            "this text attends to its features and writes none over its image tokens, so no position reads as one; "
            "read positions behind a text block (`through=0`)",
        )
    features: Tensor = staged.merge(state)
    if len(features) != len(places):
        raise Unavailable(
            "vision.image_features",
            f"the projector makes {len(features)} features, which the wrapper lays out over {len(places)} image tokens "
            "in an order of its own; read them behind a text block (`through=0`)",
        )
    return features


@torch.no_grad()
def _read(
    model: StandardizedTransformer,
    side: Side,
    streams: Mapping[int, Tensor],
    places: tuple[int, ...],
    *,
    value: str,
    top: int,
    watch: int | str | Sequence[int | str],
    progress: bool | None,
) -> LensResult:
    """The words of some streams, a few positions at a time."""
    (top,) = whole(top, "top")
    if top < 1:
        raise InputError(f"top is {top}; at least one word is kept")
    wanted = numbers_of(model, watch)
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    with Bar(f"lens of {value}", len(streams) * len(places), progress) as bar:
        for stream in streams.values():
            parts = []
            for rows in torch.split(stream, ROWS):
                chances = model.project_on_vocab(rows).float().softmax(-1)
                best = chances.topk(min(top, chances.shape[-1]), dim=-1)
                parts.append((best.indices.cpu(), best.values.cpu(), chances[:, wanted].cpu()))
                bar.advance(len(rows))
            kept.append(tuple(torch.cat(one) for one in zip(*parts, strict=True)))  # type: ignore[arg-type]
    tokens, chances, watched = (torch.stack(one) for one in zip(*kept, strict=True))
    boxes, images = boxes_of(model, side, places)
    return LensResult(
        tokens=tokens,
        probabilities=chances,
        watched=watched,
        boxes=boxes,
        images=images,
        **pictured.of((side,)),
        texts=pictured.by_token(model, side, places, images),
        watch=tuple(wanted),
        words=words_of(model, [*tokens.flatten().tolist(), *wanted]),
        layers=tuple(streams),
        positions=places,
        value=value,
        settings={"model": model_name(model), "top": top},
    )
