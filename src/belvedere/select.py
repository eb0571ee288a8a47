"""Which part of a served container a value is: an argument of a call, or a part of what a module returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Argument", "First", "FirstArgument", "Item", "LogitsPart", "Part", "Positions", "Whole"]


class Part(Protocol):
    """Takes a value out of what a location serves, and puts another in its place."""

    def get(self, served: Any) -> Any:
        """The value inside ``served``."""

    def put(self, served: Any, value: Any) -> Any:
        """``served`` with ``value`` in its place; ``served`` itself is left as it is."""


@dataclass(frozen=True)
class Whole:
    """All that the location serves."""

    def get(self, served: Any) -> Any:
        """``served``."""
        return served

    def put(self, served: Any, value: Any) -> Any:
        """``value``."""
        return value


@dataclass(frozen=True)
class First:
    """A module's main output, whether it returns a tensor, a tuple or a ``ModelOutput``.

    Args:
        name: The field to prefer in a ``ModelOutput``.
    """

    name: str = ""

    def get(self, served: Any) -> Any:
        """The tensor, or the first entry of the container."""
        if isinstance(served, Mapping):
            return served[self._key(served)]
        return served[0] if isinstance(served, (tuple, list)) else served

    def put(self, served: Any, value: Any) -> Any:
        """The same kind of container with ``value`` first."""
        if isinstance(served, Mapping):
            return type(served)(**{**served, self._key(served): value})
        if isinstance(served, (tuple, list)):
            return type(served)([value, *served[1:]])
        return value

    def _key(self, served: Mapping[str, Any]) -> str:
        return self.name if self.name in served else next(iter(served))


@dataclass(frozen=True)
class Item:
    """One entry of a tuple that a module returns."""

    position: int

    def get(self, served: Any) -> Any:
        """The entry."""
        return served[self.position]

    def put(self, served: Any, value: Any) -> Any:
        """The tuple with another value there."""
        return (*served[: self.position], value, *served[self.position + 1 :])


@dataclass(frozen=True)
class LogitsPart(First):
    """The logits of a model's output; in a tuple that begins with a loss they are the first with three axes."""

    def get(self, served: Any) -> Any:
        """The logits, ``[batch, seq, vocab]``."""
        return served[self._place(served)] if isinstance(served, tuple) else super().get(served)

    def put(self, served: Any, value: Any) -> Any:
        """The same output with other logits."""
        if not isinstance(served, tuple):
            return super().put(served, value)
        place = self._place(served)
        return (*served[:place], value, *served[place + 1 :])

    def _place(self, served: tuple[Any, ...]) -> int:
        return next(place for place, held in enumerate(served) if getattr(held, "ndim", 0) == 3)


@dataclass(frozen=True)
class FirstArgument:
    """The first argument of a call, however it is passed (Llama 4 passes a block its stream by keyword)."""

    def get(self, served: Any) -> Any:
        """The first positional argument, else the first keyword's."""
        args, kwargs = served
        return args[0] if args else next(iter(kwargs.values()))

    def put(self, served: Any, value: Any) -> Any:
        """The call with another first argument."""
        args, kwargs = served
        if args:
            return (value, *args[1:]), kwargs
        return args, {**kwargs, next(iter(kwargs)): value}


@dataclass(frozen=True)
class Argument:
    """One argument of a call, by position where it is passed so, else by keyword."""

    position: int
    name: str = ""

    def get(self, served: Any) -> Any:
        """The argument, or ``None`` where the call does not pass it."""
        args, kwargs = served
        return args[self.position] if self.position < len(args) else kwargs.get(self.name)

    def put(self, served: Any, value: Any) -> Any:
        """The call with another value for this argument."""
        args, kwargs = served
        if self.position < len(args):
            return (*args[: self.position], value, *args[self.position + 1 :]), kwargs
        return args, {**kwargs, self.name: value}


@dataclass(frozen=True)
class Positions(Argument):
    """A tensor ``[batch, seq]`` of a model's input: its token ids, or a number of each embedding in their place."""

    def get(self, served: Any) -> Any:
        """The ids, or the embeddings' first column, or ``None`` where the call passes neither."""
        ids, embeddings = super().get(served), served[1].get("inputs_embeds")
        return embeddings[..., 0] if ids is None and embeddings is not None else ids
