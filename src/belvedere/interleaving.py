"""What a run remembers beside nnsight's own bookkeeping: where it is, and a few small values that it has passed.

nnsight hands a value to a worker without saying from where, and forgets it at once. Two things need more:

* A batch of several invokes is split by rows, and rows mean pictures, patches or image tokens inside a tower. The
  batcher asks `Interleaver.location` which it is.
* A prompt's token ids and an attention's segment bounds are wanted long after the place where they pass. They are
  small, so the run keeps them (`Interleaver.keep`), and a value made of them can be read at any later point.
"""

from collections.abc import Callable
from typing import Any

from nnsight.intervention.interleaver import Interleaver as NNsightInterleaver
from nnsight.intervention.interleaver import Mediator

from belvedere.errors import InputError

__all__ = ["Interleaver"]


class Interleaver(NNsightInterleaver):
    """nnsight's interleaver, with the location being served and the small values that a run has passed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.location = ""
        self._kept: dict[tuple[str, str], list[Any]] = {}
        self._watched: list[Any] = []
        self._unnamed: dict[str, str] = {}
        self._before: dict[str, int] = {}
        self._after_first: dict[str, int] | None = None
        self._selectors: dict[str, dict[str, Callable[[Any], Any]]] = {}

    def watch(self, watched: Any) -> None:
        """Check a view at the end of the run; see `belvedere.edits.watch`."""
        self._watched.append(watched)

    def read_once(self, location: str, path: str) -> None:
        """Remember a read of a location that did not say which of its calls; several make it an error."""
        self._unnamed[location] = path

    def calls(self, location: str) -> int:
        """How often the run has come to a location."""
        return int(self.counts.get(location, 0)) - self._before.get(location, 0)

    def _refuse_unnamed(self, unnamed: dict[str, str]) -> None:
        """Raise where a value was read of a module that ran more often than the model itself did.

        A generation's later steps may not come to it at all, so its first forward is looked at alone too.
        """
        total, first = max(self.calls("model.input"), 1), self._after_first or {}
        for location, path in unnamed.items():
            once = int(first.get(location, 0)) - self._before.get(location, 0)
            calls, forwards = (once, 1) if once > 1 else (self.calls(location), total)
            if calls > forwards:
                host, _, name = path.rpartition(".")
                raise InputError(
                    f"{path} was computed {calls} times in {forwards} forward(s), and only the first was served; "
                    f"say which call you mean: {host}.call(0).{name} to {host}.call({calls - 1}).{name}"
                )

    def keep(self, location: str, name: str, select: Callable[[Any], Any]) -> None:
        """Remember ``select(value)`` of every visit to ``location`` under a name, for the length of a run."""
        self._selectors.setdefault(location, {})[name] = select

    def kept(self, location: str, name: str, mediator: Mediator) -> tuple[Any, ...]:
        """The kept value that a worker would be served now, as a 1-tuple; empty where the run is not there yet."""
        visits = self._kept.get((location, name), [])
        if not visits:
            return ()
        if mediator.iteration is None:
            return (visits[-1],)
        return tuple(visits[mediator.iteration : mediator.iteration + 1])

    def __enter__(self) -> "Interleaver":
        self._kept.clear()
        self._unnamed.clear()
        self._before, self._after_first = dict(self.counts), None
        super().__enter__()
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool:
        watched, self._watched = self._watched, []
        unnamed = dict(self._unnamed)
        self._kept.clear()
        swallowed = bool(super().__exit__(exc_type, exc_value, traceback))
        if exc_type is None:
            for one in watched:
                one.check()
            self._refuse_unnamed(unnamed)
        return swallowed

    def handle(self, provider: str, value: Any) -> Any:
        """Serve a location as nnsight does, saying meanwhile which one it is."""
        if provider == "model.input" and self._after_first is None and self.calls(provider) == 1:
            self._after_first = dict(self.counts)
        if provider not in self.parked and provider not in self.observers and provider not in self._selectors:
            # Nearly every visit: nobody waits here, so it is only counted.
            self.counts[provider] = self.counts.get(provider, 0) + 1
            return value
        outer, self.location = self.location, provider
        try:
            value = super().handle(provider, value)
        finally:
            self.location = outer
        for name, select in self._selectors.get(provider, {}).items():
            self._kept.setdefault((provider, name), []).append(select(value))
        return value
