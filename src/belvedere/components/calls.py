"""An envoy at one of several calls of a forward: a tower that sees pictures and then a video, a projector per picture.

nnsight serves the first call of a module unless it is told another. A read that does not say which call, of a module
that turns out to run several times in one forward, raises when the forward has ended: it is never silently the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nnsight.intervention.interleaver import Mediator

if TYPE_CHECKING:
    from belvedere.components.standard import Standard

__all__ = ["Called"]


class Called:
    """The values of an envoy, or of anything below it, at one call of the module.

    Args:
        host: The envoy.
        number: Which call of the run, from 0.
    """

    def __init__(self, host: Any, number: int) -> None:
        object.__setattr__(self, "_host", host)
        object.__setattr__(self, "_number", number)

    @contextmanager
    def _pinned(self) -> Iterator[Standard]:
        mediator = Mediator.current(f"call {self._number} of {self._host.path}")
        outer, mediator.iteration = mediator.iteration, self._number
        named, mediator.named_call = getattr(mediator, "named_call", False), True
        try:
            yield self._host
        finally:
            mediator.iteration, mediator.named_call = outer, named

    def __getattr__(self, name: str) -> Any:
        below = vars(self._host).get(name)
        if below is not None:
            return self._below(below)
        with self._pinned() as host:
            return getattr(host, name)

    def __getitem__(self, number: int) -> Any:
        return self._below(self._host[number])

    def __setattr__(self, name: str, written: Any) -> None:
        with self._pinned() as host:
            setattr(host, name, written)

    def _below(self, found: Any) -> Any:
        from nnsight.intervention.envoy import Envoy

        return Called(found, self._number) if isinstance(found, Envoy) else found

    def __repr__(self) -> str:
        return f"call {self._number} of {self._host.name or self._host.path}"
