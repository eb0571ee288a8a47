"""The patching story on one case: what the model answers, where the difference is held, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from belvedere import geometry
from belvedere.experiments import Cell, PatchResult, patch, patch_boxes, token_boxes
from belvedere.experiments.runs import encoded, next_logits
from belvedere.report.cases import Box, Case
from belvedere.report.matrix import Matrix, support_matrix
from belvedere.verifying import Report, verify

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Answer", "Finding", "Story", "tell"]

TOWER = "vision.layers.layer_output"
TEXT = "layers.layer_input"
SHOWN = 3
#: The least share of the difference that one position must restore to be pointed at.
LEAST = 0.05


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A token that the model may go on with, its probability, and its id."""

    text: str
    probability: float
    token: int


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A sweep over one stack.

    Args:
        result: The effects.
        boxes: ``[position, 4]`` in the clean picture's pixels.
        best: The cell with the largest effect.
        inside: Whether that cell's box overlaps what was changed; ``None`` where that is not known.
    """

    result: PatchResult
    boxes: Tensor
    best: Cell
    inside: bool | None

    @property
    def matters(self) -> bool:
        """Whether the largest effect is one at all, and not what rounding leaves."""
        return self.best.effect >= LEAST

    @property
    def box(self) -> Box:
        """The best cell's box, in whole pixels."""
        left, top, right, bottom = (round(side) for side in self.boxes[self.best.index].tolist())
        return left, top, right, bottom


@dataclass(frozen=True, kw_only=True)
class Story:
    """All that the report shows.

    Args:
        checkpoint: What the model was loaded from.
        case: The two inputs.
        clean: The likeliest answers to the clean picture.
        corrupt: The likeliest answers to the corrupt one.
        tower: The sweep over tower blocks and patches.
        text: The sweep over text blocks and image tokens.
        matrix: What the checkpoint supports.
        verified: The contract, run on the clean input.
    """

    checkpoint: str
    case: Case
    clean: tuple[Answer, ...]
    corrupt: tuple[Answer, ...]
    tower: Finding
    text: Finding
    matrix: Matrix
    verified: Report

    @property
    def notes(self) -> list[str]:
        """What a reader should know: of words that are several tokens, and of answers that the model does not give."""
        wanted = (("clean", self.clean, self.case.target), ("corrupt", self.corrupt, self.case.other))
        return self.case.notes + [
            f"the model answers {given[0].text!r} to the {which} picture, not {token.text.strip()!r}"
            for which, given, token in wanted
            if token is not None and given[0].token != token.id
        ]


def tell(
    model: StandardizedTransformer, checkpoint: str, case: Case, *, batch_cells: int = 32, progress: bool | None = None
) -> Story:
    """Run both sweeps on a case, and the contract on its clean input.

    Args:
        model: The checkpoint, loaded.
        checkpoint: What to call it.
        case: The two inputs.
        batch_cells: How many cells share a forward.
        progress: Whether to show a bar; by default where someone is watching.

    Raises:
        InputError: The inputs cannot be laid side by side, or the metric does not tell them apart.
        Unavailable: The checkpoint lacks one of the two streams.
    """
    options: dict[str, Any] = {"batch_cells": batch_cells, "progress": progress}
    size = case.picture.size
    tower = patch(model, case.clean, case.corrupt, TOWER, case.metric, **options)
    text = patch(model, case.clean, case.corrupt, TEXT, case.metric, **options)
    return Story(
        checkpoint=checkpoint,
        case=case,
        clean=_answers(model, case.clean),
        corrupt=_answers(model, case.corrupt),
        tower=_finding(tower, patch_boxes(model, case.clean, size), case),
        text=_finding(text, token_boxes(model, case.clean, size), case),
        matrix=support_matrix(model, checkpoint),
        verified=verify(model, progress=progress, checkpoint=checkpoint, **case.clean),
    )


def _finding(result: PatchResult, boxes: Tensor, case: Case) -> Finding:
    best = result.largest()
    inside = None if case.changed is None else bool(geometry.boxes_over(boxes, case.changed)[best.index])
    return Finding(result=result, boxes=boxes, best=best, inside=inside)


def _answers(model: StandardizedTransformer, shown: Mapping[str, Any]) -> tuple[Answer, ...]:
    chances = next_logits(model, encoded(model, shown, "shown"))[0].softmax(-1).topk(SHOWN)
    words: Any = model.tokenizer
    spelled = [words.decode([token]) for token in chances.indices.tolist()]
    return tuple(
        Answer(text=text.strip() or repr(text), probability=chance, token=token)
        for text, chance, token in zip(spelled, chances.values.tolist(), chances.indices.tolist(), strict=True)
    )
