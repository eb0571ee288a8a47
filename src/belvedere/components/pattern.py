"""Attention patterns without eager attention.

A fused kernel never builds the pattern. It is recomputed here from the very arguments of the interface call, by the
eager function of the module's own file, so that grouped heads, caps and sinks are whatever that file says. The softmax
inside it is where scores become probabilities: `Softmax` stands there, records what passes, and puts a written pattern
in its place.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from nnsight.intervention.interleaver import Mediator
from torch import Tensor
from torch.overrides import TorchFunctionMode

from belvedere.descriptors import Place, Reason, Value
from belvedere.edits import PendingEdit, hold, visit
from belvedere.gradients import in_graph
from belvedere.written import as_written

__all__ = ["Call", "PatternValue", "Softmax", "eager_function", "no_eager_function", "pattern_value"]

#: What a pattern is recomputed from.
ARGUMENTS = "the arguments of the attention's own call, by the eager function of its file"
SOFTMAXES = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)


class Softmax(TorchFunctionMode):
    """Records the first softmax of an eager attention, and replaces its input or its output by a written tensor."""

    def __init__(self, scores: Tensor | None = None, probabilities: Tensor | None = None) -> None:
        super().__init__()
        self.written_scores, self.written_probabilities = scores, probabilities
        self.scores: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in SOFTMAXES or self.scores is not None:
            return func(*args, **(kwargs or {}))
        # torch leaves the mode while it is inside the handler, so the call below is not seen again.
        self.scores = args[0] if self.written_scores is None else self.written_scores
        if self.written_probabilities is not None:
            return self.written_probabilities
        return func(self.scores, *args[1:], **(kwargs or {}))


def eager_function(module: torch.nn.Module) -> Callable[..., tuple[Tensor, Tensor]] | None:
    """The eager attention that ``module``'s own forward falls back to, of the file that defines its class."""
    forward = inspect.unwrap(type(module).forward)
    named = (name for name in forward.__code__.co_names if name.endswith("eager_attention_forward"))
    return getattr(sys.modules[type(module).__module__], next(named, "eager_attention_forward"), None)


def no_eager_function(host: Any) -> str | None:
    """The reason, where a module's file has no eager attention to recompute a pattern with."""
    config = getattr(host._module, "config", None)
    if getattr(config, "_attn_implementation", None) == "flex_attention":
        return "flex attention's mask is no tensor to recompute a pattern with; load with attn_implementation='sdpa'"
    if eager_function(host._module) is not None:
        return None
    return (
        f"{type(host._module).__name__} is in a file without an eager attention function, so its pattern cannot be "
        "recomputed; read attention_queries and attention_keys"
    )


@dataclass(frozen=True)
class Call:
    """One call of transformers' attention interface: ``interface(module, query, key, value, mask, **kwargs)``."""

    module: torch.nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, served: tuple[tuple[Any, ...], dict[str, Any]]) -> Call:
        """The call that an interface location serves."""
        args, kwargs = served
        names = ("module", "query", "key", "value", "attention_mask")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        module, query, key, value, mask = (given.pop(name, None) for name in names)
        return cls(module, query, key, value, mask, given)

    def run(self, softmax: Softmax) -> tuple[Tensor, Tensor]:
        """The eager function's head outputs ``[batch, seq, heads, head_dim]`` and pattern, through ``softmax``."""
        eager = eager_function(self.module)
        assert eager is not None, "a module without an eager function is refused before it is read"
        with softmax:
            return eager(
                self.module, self.query, self.key, self.value, self.additive_mask(), **{**self.kwargs, "dropout": 0.0}
            )

    def probabilities(self) -> Tensor:
        """The pattern, ``[batch, heads, query, key]``."""
        return self.run(Softmax())[1]

    def scores(self) -> Tensor:
        """What the softmax is taken of: scaled and masked."""
        softmax = Softmax()
        self.run(softmax)
        assert softmax.scores is not None, "an eager attention takes a softmax"
        return softmax.scores

    def asked_by(self, rows: Tensor) -> Call:
        """The same call with some of its queries alone."""
        # A mask of four axes is cut before it is made additive, so that no more than its rows are.
        mask = self.mask if self.mask is not None and self.mask.ndim == 4 else self.additive_mask()
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., rows.to(mask.device), :]
        return replace(self, query=self.query[:, :, rows.to(self.query.device)], mask=mask)

    def additive_mask(self) -> Tensor | None:
        """The mask in the form that eager attention adds to the scores.

        ``None`` with a causal module means a causal mask, as ``sdpa`` reads it; a boolean one says where to attend; a
        2-dimensional one is the padding mask that flash attention takes.
        """
        queries, keys = self.query.shape[-2], self.key.shape[-2]
        allowed = self.mask
        if allowed is not None and allowed.ndim == 2:
            # Flash attention lets the last query see the last key.
            allowed = allowed.bool()[:, None, None, :] & self._causal(queries, keys, keys - queries)
        elif allowed is None and queries > 1 and self._is_causal() and not self._is_eager():
            # sdpa's flag lets the first query see the first key, and a static cache's empty slots come last.
            allowed = self._causal(queries, keys, 0)
        if allowed is None or allowed.is_floating_point():
            return allowed
        # An eager softmax runs in float32, where the least float64 is minus infinity.
        lowest = max(torch.finfo(self.query.dtype).min, torch.finfo(torch.float32).min)
        return torch.zeros_like(allowed, dtype=self.query.dtype).masked_fill(~allowed, lowest)

    def _is_eager(self) -> bool:
        """Whether the model runs the eager function itself, which takes no mask for none."""
        return getattr(getattr(self.module, "config", None), "_attn_implementation", None) == "eager"

    def _is_causal(self) -> bool:
        given = self.kwargs.get("is_causal")
        return bool(given if given is not None else getattr(self.module, "is_causal", True))

    def _causal(self, queries: int, keys: int, offset: int) -> Tensor:
        row = torch.arange(queries, device=self.query.device)[:, None] + offset
        column = torch.arange(keys, device=self.query.device)[None, :]
        allowed = column <= row if self._is_causal() else torch.ones_like(column <= row)
        window = self.kwargs.get("sliding_window")
        if window is not None:
            allowed = allowed & (column > row - window)
        return allowed[None, None]


class PatternValue(Value[Any]):
    """A pattern: read where an attention's arguments are, written where its result is.

    Args:
        at: Where the arguments are served.
        result: Gives the location of the head outputs on a host.
        replace: ``replace(host, pattern, served)``: what is served there under a written pattern.
        unavailable: A reason why it cannot be had, or a function of the host that returns one or ``None``.
        description: The few words that ``repr(model)`` prints.
        recomputed: What it is recomputed from.
    """

    def __init__(
        self,
        at: Place,
        result: Callable[[Any], str],
        replace: Callable[[Any, Any, Any], Any],
        unavailable: Reason,
        description: str,
        recomputed: str = ARGUMENTS,
    ) -> None:
        super().__init__(at, unavailable=unavailable, description=description, recomputed=recomputed)
        self.result, self.replace = result, replace

    def of_rows(self, host: Any, rows: Tensor) -> Tensor:
        """Inside a trace: the pattern of some queries, ``[batch, heads, rows, key]``, without making that of the rest.

        Args:
            host: An attention whose pattern is made of one call.
            rows: ``[rows]``, the queries.
        """
        self.refuse(host)
        call = Call.of(visit(self.location(host))).asked_by(rows)
        return call.probabilities()

    def _serve(self, host: Any, mediator: Mediator, key: Any, served: Any) -> Any:
        view = self._view(host, served)
        written = (self.result(host), lambda: self.replace(host, view, served))
        hold(host, mediator, PendingEdit(view, key, (key[1], served), written, self.path(host)))
        return view

    def _view(self, host: Any, held: Any) -> Any:
        view = super()._view(host, held)
        # A softmax keeps its result for the backward pass, so what is edited in place must be a copy.
        return view.clone() if in_graph(view) else view

    def _write(self, host: Any, value: Any, location: str, served: Any) -> None:
        view = self._view(host, served)
        written = as_written(value, view, self.path(host), self.layout)
        # A pattern written back as it is must leave the kernel's own result, which differs in the last bits.
        if not same(written, view):
            Mediator.swap(self.result(host), self.replace(host, written, served))


def same(written: Any, view: Any) -> bool:
    """Whether two patterns, or lists of them, are equal to the last bit; no where a gradient is to pass the first."""
    if isinstance(view, Tensor):
        return not in_graph(written) and torch.equal(written, view)
    return all(same(one, was) for one, was in zip(written, view, strict=True))


def pattern_value(
    at: Place,
    *,
    result: Callable[[Any], str],
    replace: Callable[[Any, Any, Any], Any],
    description: str,
    also: Callable[[Any], str | None] | None = None,
) -> Callable[[Callable[..., Any]], PatternValue]:
    """Declare a `PatternValue`, with the decorated function giving the pattern from what is served at ``at``.

    A module without an eager function refuses it, and so does ``also`` where it gives a reason.
    """

    def unavailable(host: Any) -> str | None:
        return (also(host) if also is not None else None) or no_eager_function(host)

    def adopt(read: Callable[..., Any]) -> PatternValue:
        made = PatternValue(at, result, replace, unavailable, description)
        made(read)
        return made

    return adopt
