"""What a model makes of its head's output before it is logits: a factor, a divisor or a softcap.

A config may carry such a field though the model at hand does not apply it: a wrapper brings its own head, and some
leave out what the text model would do. So a field counts only where the forward that owns the head reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor

__all__ = ["as_logits"]

#: What each config field does to what the head returns.
CHANGES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "logit_scale": lambda projected, factor: projected * factor,
    "logits_scaling": lambda projected, divisor: projected / divisor,
    "final_logit_softcapping": lambda projected, cap: (projected / cap).tanh() * cap,
}


def as_logits(projected: Tensor, module: Any, config: Any) -> Tensor:
    """The logits that ``module`` makes of what its head returned.

    Args:
        projected: What the head returned.
        module: The model whose forward calls the head.
        config: The config of its text model.
    """
    for field in _read(type(module).forward):
        amount = getattr(config, field, None)
        if amount is not None:
            projected = CHANGES[field](projected, amount)
    return projected


@cache
def _read(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The fields that a forward reads."""
    source = inspect.getsource(forward)
    return tuple(field for field in CHANGES if field in source)
