"""What a model makes of pictures and a prompt, gathered for one page: where it looks, what it reads, what matters.

`explore` asks three things of every image token (or of every row of the tower that the text attends to):

how much is it attended to
    by the position where the answer is read off, in each block and head, and by each token of the prompt;
what does it read as
    behind each block, through the model's own norm and head (`belvedere.experiments.lens`);
what does it change
    activation patching: the token's stream is copied into a run on other pictures (`belvedere.experiments.patch`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.components import NoVision
from belvedere.errors import InputError, Unavailable
from belvedere.experiments import LensResult, Metric, PatchResult, lens, logit, logit_difference, patch
from belvedere.experiments.numbers import Layers, blocks_asked
from belvedere.experiments.pairs import Pair
from belvedere.experiments.runs import Side, encoded, layout_of, next_logits
from belvedere.experiments.settled import experiment
from belvedere.experiments.where import model_name, positions_of
from belvedere.pictures import open_picture
from belvedere.report.cases import Token, spellings
from belvedere.report.looked import Looks, looks_of
from belvedere.report.sheets import Sheet, count_of, sheets_of

if TYPE_CHECKING:
    from PIL.Image import Image

    from belvedere.standardized import StandardizedTransformer

__all__ = ["Candidate", "Exploration", "Word", "explore"]

PATCHED = "layers.layer_input"
#: How many cells of a patching sweep are run unasked; with more, some blocks are left out.
CELLS = 4096
TOP = 3
BESIDE = (
    "this text attends to the picture beside the prompt, so no place of it has a stream in the text that reads as a "
    "word or can be patched; patch the tower, vision.layers.layer_output"
)
ANSWERS = 5


@dataclass(frozen=True, kw_only=True)
class Word:
    """A token of the prompt: its position, what it spells, and the picture that it stands for, -1 for text."""

    position: int
    text: str
    image: int


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token that the model may go on with, and its probability."""

    token: int
    text: str
    probability: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Exploration:
    """All that the page shows, in raw numbers.

    Args:
        model: What the model was loaded from.
        question: The prompt as it was asked.
        pictures: The pictures.
        words: The prompt's tokens.
        candidates: The likeliest next tokens, best first.
        answer: The answer that is asked about.
        chosen: Whether someone chose it; else it is the likeliest.
        blocks: How many blocks the text model has.
        cells: How many cells the pictures have: image tokens, or rows of the tower that the text attends to.
        sheets: Where they lie.
        looks: Who attends to them; the reason where no block has a pattern.
        lens: What they read as; the reason where they are no positions of the prompt.
        effects: What they change; the reason where that was not measured.
        corrupt: What the corrupt run sees, in words.
        notes: What a reader should know.
        settings: What made it.
    """

    model: str
    question: str
    pictures: tuple[Image, ...]
    words: tuple[Word, ...]
    candidates: tuple[Candidate, ...]
    answer: Candidate
    chosen: bool
    blocks: int
    cells: int
    sheets: tuple[Sheet, ...]
    looks: Looks | str
    lens: LensResult | str
    effects: PatchResult | str
    corrupt: str = ""
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@experiment
def explore(
    model: StandardizedTransformer,
    prompt: str,
    images: Sequence[Any],
    *,
    answer: str | None = None,
    corrupt: Sequence[Any] | None = None,
    corrupt_prompt: str | None = None,
    effect_layers: Layers | None = None,
    progress: bool | None = None,
) -> Exploration:
    """Look at what a model does with pictures and a prompt.

    Args:
        model: The model.
        prompt: What is asked; put into the checkpoint's chat template where it has no placeholder for the pictures.
        images: The pictures.
        answer: The word whose probability is followed; by default the token that the model would write next.
        corrupt: Other pictures of the same sizes, which the corrupt run of the patching sees; by default each picture
            in its own mean colour.
        corrupt_prompt: What the corrupt run is asked; by default the same.
        effect_layers: The blocks at which image tokens are patched; empty for none. By default all or, where they have
            more than 4096 image tokens together, evenly spaced ones.
        progress: Whether to show bars; by default where someone is watching.

    Raises:
        InputError: A picture cannot be read, the pictures do not fit the prompt, the answer is no word of the
            vocabulary, or the corrupt run cannot be laid beside the clean one.
        Unavailable: No picture reaches this model.
    """
    if isinstance(model.vision, NoVision):
        raise Unavailable("vision", str(model.vision.no_images()))
    # What is refused without the weights is refused before they load.
    model.dispatch()
    pictures = _opened(images)
    others = None if corrupt is None else _opened(corrupt)
    shown = asked(model, prompt, pictures)
    other = asked(model, corrupt_prompt or prompt, _seen_instead(pictures, others, corrupt_prompt))
    side = Pair.align(model, shown, other).clean
    layout = layout_of(model, side)
    places = layout.positions[:, 1] if layout.untold is None else None
    found, token, notes = _answers(model, side, answer)
    return Exploration(
        model=_name(model),
        question=prompt,
        pictures=tuple(pictures),
        words=_words(model, side, places, layout.tokens.image),
        candidates=found,
        answer=token,
        chosen=answer is not None,
        blocks=len(model.layers),
        cells=count_of(layout),
        sheets=tuple(sheets_of(layout)),
        looks=_looks(model, side, places, count_of(layout)),
        lens=BESIDE if places is None else _lens(model, shown, token, progress),
        effects=BESIDE if places is None else _effects(model, shown, other, token, effect_layers, progress),
        corrupt=_corrupt(others, corrupt_prompt),
        notes=tuple(notes),
        settings=_settings(model, side),
    )


def _opened(given: Sequence[Any]) -> list[Image]:
    """Pictures, read.

    Raises:
        InputError: There is none, or one cannot be read.
    """
    if not given:
        raise InputError("there is no picture to explore; pass at least one")
    return [open_picture(one, number) for number, one in enumerate(given)]


def _name(model: StandardizedTransformer) -> str:
    """A Hub id, or the name of a folder without where it lies."""
    name = model_name(model)
    return PurePath(name).name if PurePath(name).is_absolute() else name


def asked(model: StandardizedTransformer, prompt: str, pictures: Sequence[Image]) -> dict[str, Any]:
    """The prompt with its pictures, as `trace` takes it by keyword."""
    token = str(getattr(model.processor, "image_token", "") or "")
    if not token or token in prompt:
        return {"text": prompt, "images": list(pictures)}
    if getattr(model.processor, "chat_template", None):
        content = [{"type": "image", "image": picture} for picture in pictures]
        return {"text": [{"role": "user", "content": [*content, {"type": "text", "text": prompt}]}]}
    return {"text": f"{token * len(pictures)}\n{prompt}", "images": list(pictures)}


def _seen_instead(pictures: Sequence[Image], given: Sequence[Image] | None, prompt: str | None) -> Sequence[Image]:
    """What the corrupt run sees: other pictures, or the same under another prompt, or their mean colours."""
    if given is not None:
        return given
    return pictures if prompt is not None else [_blank(picture) for picture in pictures]


def _blank(picture: Image) -> Image:
    """A picture of one colour, the mean of another's."""
    from PIL import Image as Pillow
    from PIL import ImageStat

    mean = tuple(round(level) for level in ImageStat.Stat(picture).mean)
    return Pillow.new("RGB", picture.size, (mean[0], mean[1], mean[2]))


def _corrupt(given: Sequence[Image] | None, prompt: str | None) -> str:
    pictures = "the pictures that were passed as corrupt" if given is not None else "the same pictures"
    if prompt is not None:
        return f"{pictures}, and is asked: {prompt}"
    return pictures if given is not None else "each picture in one colour, the mean of its own pixels"


def _answers(
    model: StandardizedTransformer, side: Side, answer: str | None
) -> tuple[tuple[Candidate, ...], Candidate, list[str]]:
    """The likeliest next tokens, the one that is asked about, and what to know of it."""
    logits = next_logits(model, side)[0]
    chances = logits.softmax(-1)
    best = chances.topk(min(ANSWERS, len(chances))).indices.tolist()
    found = tuple(_candidate(model, token, chances) for token in best)
    if answer is None:
        return found, found[0], []
    written: Token = max(spellings(model.tokenizer, answer), key=lambda token: float(logits[token.id]))
    notes = [written.note] if written.note else []
    if written.id != best[0]:
        notes.append(f"the model's own next token is {found[0].text!r}, not {written.text!r}")
    return found, _candidate(model, written.id, chances), notes


def _candidate(model: StandardizedTransformer, token: int, chances: Tensor) -> Candidate:
    text = f"#{token}" if model.tokenizer is None else str(model.tokenizer.decode([token]))
    return Candidate(token=token, text=text, probability=float(chances[token]))


def _words(model: StandardizedTransformer, side: Side, places: Tensor | None, images: Tensor) -> tuple[Word, ...]:
    ids = side.encoding["input_ids"][0].tolist()
    owner = {} if places is None else dict(zip(places.tolist(), images.tolist(), strict=True))
    kept = positions_of(model, side, "all")
    return tuple(
        Word(
            position=place,
            image=owner.get(place, -1),
            text="" if place in owner or model.tokenizer is None else str(model.tokenizer.decode([ids[place]])),
        )
        for place in kept
    )


def _looks(model: StandardizedTransformer, side: Side, places: Tensor | None, cells: int) -> Looks | str:
    queries = positions_of(model, side, "text" if places is not None else "all")
    try:
        found = looks_of(model, side, queries, places)
    except Unavailable as refusal:
        return str(refusal)
    keys = {int(held.shape[-1]) for held in found.answer.values()}
    if keys != {cells}:
        return f"the text attends to {keys} rows for the pictures, and the layout knows {cells}"
    return found


def _lens(
    model: StandardizedTransformer, shown: Mapping[str, Any], answer: Candidate, progress: bool | None
) -> LensResult | str:
    try:
        return lens(model, shown, positions="image", top=TOP, watch=[answer.token], progress=progress)
    except (InputError, Unavailable) as refusal:
        return str(refusal)


def _effects(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    other: Mapping[str, Any],
    answer: Candidate,
    layers: Layers | None,
    progress: bool | None,
) -> PatchResult | str:
    corrupt = encoded(model, other, "corrupt")
    count = len(positions_of(model, corrupt, "image"))
    if layers is None:
        wanted = _spaced(len(model.layers), count)
    elif isinstance(layers, int) or (layers := list(layers)):
        wanted = blocks_asked(layers, len(model.layers), PATCHED)
    else:
        return "no blocks were asked for"
    rival = int(next_logits(model, corrupt)[0].argmax())
    metric: Metric = logit(answer.token) if rival == answer.token else logit_difference(answer.token, rival)
    try:
        return patch(model, shown, other, PATCHED, metric, layers=wanted, progress=progress)
    except (InputError, Unavailable) as refusal:
        return str(refusal)


def _spaced(count: int, tokens: int) -> list[int]:
    """As many blocks, evenly spaced from the first to the last, as a sweep has room for; at least one."""
    most = max(1, min(count, CELLS // max(tokens, 1)))
    return sorted(set(torch.linspace(0, count - 1, most).round().long().tolist()))


def _settings(model: StandardizedTransformer, side: Side) -> dict[str, str]:
    parameter = next(model.embed_tokens._module.parameters())
    return {
        "model": _name(model),
        "prompt": f"{side.length} tokens",
        "weights": str(parameter.dtype).removeprefix("torch."),
    }
