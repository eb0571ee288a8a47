"""Relevance: how much each token of the prompt, and so each part of a picture, has to do with a token of the answer.

Three ways, from one forward:

``"gradient"``
    gradient times input, at the stream that enters the first block: to first order, what each token adds to the score;
``"rollout"``
    the attention patterns, averaged over heads and multiplied over blocks, half of each the residual's identity (Abnar
    and Zuidema, "Quantifying Attention Flow in Transformers", 2020). It does not know which token is asked about;
``"weighted"``
    the patterns weighted by their gradients, their negative parts dropped (Chefer et al., "Generic Attention-model
    Explainability", 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import nnsight
import torch
from torch import Tensor

from belvedere.components import NoVision
from belvedere.errors import InputError, Unavailable
from belvedere.experiments import pictured
from belvedere.experiments.answers import check_answer, followed, written
from belvedere.experiments.metrics import Metric, Unbound, in_words, logit, measured, metric_name
from belvedere.experiments.patterns import Patterns
from belvedere.experiments.progress import Bar
from belvedere.experiments.readings import words_of
from belvedere.experiments.relevances import RelevanceResult
from belvedere.experiments.runs import Side, encoded, layout_of, next_logits
from belvedere.experiments.settled import experiment
from belvedere.experiments.sites import Site
from belvedere.experiments.tokens import numbers_of
from belvedere.experiments.where import boxes_of

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["relevance"]

#: How far an answer behind the prompt may move the prompt's own logits, for their size, before that is no rounding.
MOVED = 1e-2


@experiment
def relevance(
    model: StandardizedTransformer,
    shown: Mapping[str, Any],
    *,
    method: str = "gradient",
    answer: int | str | Sequence[int | str] | None = None,
    metric: Metric | None = None,
    max_new_tokens: int = 1,
    progress: bool | None = None,
) -> RelevanceResult:
    """How relevant each token of the prompt is to each token of the answer.

    Args:
        model: The model.
        shown: The input, as `trace` takes it by keyword.
        method: ``"gradient"``, ``"rollout"`` or ``"weighted"``.
        answer: The answer's token, or several, by number or word; by default what the model writes, greedily.
        metric: What of a token's logits is explained; by default the logit of the token itself. A `logit_difference`
            explains why this answer and not another, and finds the object better than the logit alone.
        max_new_tokens: How many tokens are written at most, where no answer is given.
        progress: Whether to show a bar.

    Returns:
        ``[token, position]``, with the place of each position in the pictures.

    Raises:
        InputError: There is no such method or token, or what is written changes what the prompt says.
        Unavailable: A rollout through blocks without a pattern, or a stream without one vector per position.
    """
    if method not in METHODS:
        raise InputError(f"method={method!r} is none; known: {', '.join(METHODS)}")
    side = encoded(model, shown, "shown")
    metric = None if metric is None else _sloping(in_words(model, metric))
    given = written(model, side, max_new_tokens) if answer is None else numbers_of(model, answer)
    tokens = check_answer(given, model.vocab_size)
    # The last token is not read from: it is the one that is asked about.
    whole = followed(side, tokens[:-1])
    places = range(side.last, side.last + len(tokens))
    if len(tokens) > 1:
        _refuse_moved(model, side, whole)
    scores = [logit(token) if metric is None else metric for token in tokens]
    found = METHODS[method](model, whole, list(zip(places, scores, strict=True)), progress)
    boxes, images = boxes_of(model, whole, tuple(range(whole.length)))
    links, patch_boxes, patch_images = _patches(model, side)
    ids = whole.encoding["input_ids"][0].cpu()
    return RelevanceResult(
        relevance=found,
        ids=ids,
        boxes=boxes,
        images=images,
        **pictured.of((side,)),
        links=links,
        patch_boxes=patch_boxes,
        patch_images=patch_images,
        tokens=tuple(tokens),
        words=words_of(model, [*tokens, *ids.tolist()]),
        method=method,
        besides=_besides(model, side) if method == "gradient" else (),
        settings=pictured.made_by(model, "logit" if metric is None else metric_name(metric)),
    )


def _sloping(metric: Metric) -> Metric:
    """A metric, unless it is how far a run is from itself."""
    if isinstance(metric, Unbound):
        raise InputError(f"the {metric_name(metric)} from a run has no slope at that run; pass a logit or a difference")
    return metric


#: Where the answer's logits are, and what of them is explained.
Asked = list[tuple[int, Metric]]


def _gradient(model: StandardizedTransformer, side: Side, asked: Asked, progress: bool | None) -> Tensor:
    """Gradient times input, at what enters the first block."""
    Site.find(model, "layers.layer_input", [0])
    with torch.enable_grad():
        with model.trace(**side.encoding):
            entering = nnsight.save(model.layers[0].layer_input.detach().clone().requires_grad_())
            model.layers[0].layer_input = entering
            logits = nnsight.save(model.logits)
        rows = [
            (gradient * entering).detach().sum(-1)[0].float().cpu()
            for (gradient,) in _gradients(logits, [entering], asked, progress)
        ]
    return torch.stack(rows)


def _rollout(model: StandardizedTransformer, side: Side, asked: Asked, progress: bool | None) -> Tensor:
    """The product of the patterns, each half identity."""
    patterns = _through(model)
    with torch.no_grad(), model.trace(**side.encoding):
        held = nnsight.save([patterns.read(layer)[0][1].float().mean(0) for layer in patterns.hosts])
    same = torch.eye(len(held[0]), device=held[0].device)
    flow = same
    with Bar("rollout", len(held), progress) as bar:
        for pattern in held:
            flow = (pattern + same.to(pattern.device)) / 2 @ flow.to(pattern.device)
            bar.advance(1)
    return flow[[place for place, _ in asked]].cpu()


def _weighted(model: StandardizedTransformer, side: Side, asked: Asked, progress: bool | None) -> Tensor:
    """The sum of what flows along the patterns, each weighted by its gradient."""
    patterns = _through(model)
    with torch.enable_grad():
        with model.trace(**side.encoding):
            stream = model.layers[0].layer_input.detach().clone().requires_grad_()
            model.layers[0].layer_input = stream
            held = nnsight.save([_in_graph(patterns, layer) for layer in patterns.hosts])
            logits = nnsight.save(model.logits)
        rows = []
        for (place, _), gradients in zip(asked, _gradients(logits, held, asked, progress), strict=True):
            same = torch.eye(held[0].shape[-1])
            flow = same
            for pattern, gradient in zip(held, gradients, strict=True):
                mean = (gradient * pattern).detach().clamp_min(0).mean((0, 1)).float().cpu()
                flow = flow + mean @ flow
            rows.append((flow - same)[place])
    return torch.stack(rows)


METHODS: dict[str, Callable[..., Tensor]] = {"gradient": _gradient, "rollout": _rollout, "weighted": _weighted}


def _in_graph(patterns: Patterns, layer: int) -> Tensor:
    """Inside a trace: a block's pattern, through which the block's head outputs are made from now on."""
    host: Any = patterns.hosts[layer]
    pattern: Tensor = host.attention_probabilities
    host.attention_probabilities = pattern
    return pattern


def _gradients(logits: Tensor, held: list[Tensor], asked: Asked, progress: bool | None) -> Any:
    """The gradients of each asked score, one after the other."""
    with Bar("relevance", len(asked), progress) as bar:
        for number, (place, metric) in enumerate(asked):
            score = measured(metric, logits[:, place].float()).sum()
            if not score.requires_grad:
                raise InputError(f"{metric_name(metric)} has no gradient; take a logit, a difference or a probability")
            yield torch.autograd.grad(score, held, retain_graph=number < len(asked) - 1)
            bar.advance(1)


def _through(model: StandardizedTransformer) -> Patterns:
    """The patterns of every block.

    Raises:
        Unavailable: A block has none.
    """
    patterns = Patterns.find(model, "text", None)
    if patterns.lacking:
        where, reason = next(iter(patterns.reasons.items()))
        raise Unavailable(
            "layers.attention_probabilities",
            f"a rollout follows the patterns through every block, and blocks {where} have none "
            f"({reason.partition(';')[0]}); use method='gradient'",
        )
    return patterns


def _refuse_moved(model: StandardizedTransformer, side: Side, whole: Side) -> None:
    """An answer that the prompt itself attends to, as where a prompt is seen both ways."""
    with torch.no_grad(), model.trace(**whole.encoding):
        beside = nnsight.save(model.logits[:, side.last].float())
    alone = next_logits(model, side)
    if float((beside - alone).abs().max()) > MOVED * float(alone.abs().max()):
        raise InputError(
            "this model's prompt attends to what stands behind it, so no answer of several tokens can be laid there; "
            "ask about its first token (max_new_tokens=1)"
        )


def _besides(model: StandardizedTransformer, side: Side) -> tuple[str, ...]:
    """Where pictures enter the text beside the stream that enters the first block."""
    if isinstance(model.vision, NoVision) or not side.pictures.count:
        return ()
    scattered = model.family.facts.scatter is not None
    return tuple(one.path for one in model.vision.entries() if not (scattered and one.path.startswith("vision.")))


def _patches(model: StandardizedTransformer, side: Side) -> tuple[Tensor, Tensor, Tensor]:
    """The position and the tower's row of each pair that belongs together, and the rows' boxes and pictures."""
    none = torch.empty(0, 2, dtype=torch.long), torch.empty(0, 4, dtype=torch.float64), torch.empty(0, dtype=torch.long)
    if isinstance(model.vision, NoVision) or not side.pictures.count or side.pictures.videos:
        return none
    layout = layout_of(model, side)
    if not len(layout.positions):
        return none
    pairs = [
        torch.stack([torch.full_like(rows, int(place)), rows], 1)
        for token, place in enumerate(layout.positions[:, 1].tolist())
        if len(rows := layout.patches_of(token))
    ]
    links = torch.cat(pairs) if pairs else none[0]
    return links, layout.patches.source_box.double(), layout.patches.image
