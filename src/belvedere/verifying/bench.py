"""One model and one input: its plain forward, its traces, and what rounding allows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from belvedere.components import NoVision
from belvedere.errors import InputError
from belvedere.verifying.report import Difference
from belvedere.verifying.walk import Place, every_value

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Bench", "at_rest", "compared", "first_that", "loaded", "logits_of", "near", "worst"]

T = TypeVar("T")


@dataclass(eq=False)
class Bench:
    """A model, an input, and what all clauses ask of the two.

    Args:
        model: The model, with its weights.
        encoding: What its forward takes, pictures and all.
    """

    model: StandardizedTransformer
    encoding: dict[str, Any]
    _missing: list[str] = field(default_factory=list)

    @cached_property
    def places(self) -> list[Place]:
        """Every value of the model in the order of the forward, those that it lacks among them."""
        return list(every_value(self.model))

    @cached_property
    def made(self) -> list[Place]:
        """The values that this input makes."""
        readable = [one for one in self.places if one.reason is None]

        def look() -> list[Place]:
            return [one for one in readable if not one.idle() and self._has_input(one)]

        return self.trace(look)

    @cached_property
    def unmade(self) -> list[Place]:
        """The values that the model has and this input does not make."""
        made = set(map(id, self.made))
        return [one for one in self.places if one.reason is None and id(one) not in made]

    def _has_input(self, place: Place) -> bool:
        """Whether what a value is made of is in the input at all."""
        return place.name != "attention_mask" or self.encoding.get("attention_mask") is not None

    @cached_property
    def logits(self) -> Tensor:
        """The logits of a plain forward."""
        return self.plain()

    @cached_property
    def noise(self) -> float:
        """The largest difference between two plain forwards: 0 where the model's kernels repeat themselves."""
        return float((self.plain().float() - self.logits.float()).abs().amax())

    @property
    def shows_picture(self) -> bool:
        """Whether the input shows one."""
        return not isinstance(self.model.vision, NoVision) and self.model.pictures(self.encoding).count > 0

    def plain(self, encoding: Mapping[str, Any] | None = None) -> Tensor:
        """The logits of the module's own forward, outside of a trace."""
        model = self.model
        given = {} if model.family.wrapper is None or model.text_only else dict(model.family.facts.forward)
        return logits_of(model._module(**{**given, **(self.encoding if encoding is None else encoding)}))

    def trace(self, body: Callable[[], T]) -> T:
        """What a function returns that runs inside of a trace of the input."""
        held: list[T] = []
        with self.model.trace(**self.encoding):
            held.append(body())
        return held[0]

    def traced_logits(self, body: Callable[[], Any]) -> Tensor:
        """The logits of a trace in which a function runs first."""

        def run() -> Tensor:
            body()
            return logits_of(self.model.output)

        return self.trace(run)

    def real(self, held: Tensor) -> Tensor:
        """Of ``[batch, seq, ...]`` the positions that are no padding, whose content is the kernel's choice: flat."""
        mask = self.encoding.get("attention_mask")
        if mask is None or mask.ndim != 2 or mask.shape != held.shape[:2]:
            return held.flatten(0, 1)
        return held[mask.to(held.device).bool()]

    def same(self, logits: Tensor) -> bool:
        """Whether logits are the plain forward's: bit for bit, or as nearly as the plain forward repeats itself."""
        if not self.noise:
            return torch.equal(logits, self.logits)
        return logits.shape == self.logits.shape and self.apart(logits) <= 4 * self.noise

    def apart(self, logits: Tensor) -> float:
        """How far logits are from the plain forward's, at most."""
        return float((logits.float() - self.logits.float()).abs().amax())

    @property
    def exactly(self) -> str:
        """How `same` compares, in words."""
        if not self.noise:
            return "bit for bit"
        return f"within {4 * self.noise:.3g}, as this model's kernels do not repeat themselves bit for bit"


def logits_of(output: Any) -> Tensor:
    """The logits of what a model returns."""
    held: Tensor | None = getattr(output, "logits", None)
    if held is None:
        held = next(one for one in output if isinstance(one, Tensor) and one.ndim == 3)
    return held


@contextmanager
def at_rest(module: torch.nn.Module) -> Iterator[None]:
    """The module in evaluation mode and without gradients while it holds; each part's mode is restored."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def first_that(count: int, fails: Callable[[int], bool]) -> int:
    """The first of several that makes a run of all up to it fail, by halving; they are known to fail together."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle + 1) else (middle + 1, high)
    return low


def worst(ours: Tensor, theirs: Tensor, allowed: Tensor) -> tuple[float, float] | None:
    """Where two tensors differ by most of what is allowed there: the difference and its tolerance; else ``None``."""
    if ours.numel() == 0:
        return None
    apart = (ours - theirs).abs()
    allowed = allowed.nan_to_num(nan=0.0)
    # What is no number on both sides is the same.
    apart = torch.where((ours == theirs) | (ours.isnan() & theirs.isnan()), 0, apart).nan_to_num(nan=torch.inf)
    share = apart / allowed.clamp_min(torch.finfo(apart.dtype).tiny)
    place = int(share.argmax())
    if share.flatten()[place] <= 1:
        return None
    return float(apart.flatten()[place]), float(allowed.expand_as(apart).flatten()[place])


def compared(where: str, what: str, found: tuple[float, float] | None) -> list[Difference]:
    """What `worst` found, as a difference; none where it found nothing."""
    return [] if found is None else [Difference(where=where, what=what, by=found[0], tolerance=found[1])]


def near(ours: Tensor, theirs: Tensor) -> tuple[float, float] | None:
    """`worst` of two ways to the same numbers through a whole model, by what its number type rounds."""
    if ours.shape != theirs.shape:
        return float("inf"), 0.0
    # Parts of a model, such as a recurrent state, are in single precision whatever its type.
    rounding = max(torch.finfo(theirs.dtype).eps, torch.finfo(torch.float32).eps)
    scale = theirs.float().abs().amax() if theirs.numel() else torch.zeros(())
    return worst(ours.float(), theirs.float(), (8 * scale * rounding**0.75).reshape(1))


def loaded(model: StandardizedTransformer) -> None:
    """Load the weights where that is left to do.

    Raises:
        InputError: There are none.
    """
    model.dispatch()
    if all(one.is_meta for one in model._module.parameters()):
        raise InputError(
            "this model has no weights, so there is nothing to verify; load it with "
            "`StandardizedTransformer(checkpoint, dispatch=True)`"
        )
