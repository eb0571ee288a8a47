"""A value at a place: how it is found, read, written and refused.

A `Value` is declared on a component and says *where* the value lives, in words relative to its host::

    @value("output", select=First())
    def layer_output(self, served) -> Residual: ...

    @value(":attention_interface().input", select=Argument(1, "query"))
    def attention_queries(self, served) -> Queries: ...

The decorated function maps what the place holds to what a user reads. It should return a view, so that an edit in place
reaches the model; where it cannot (the value is computed), ``restore`` maps the edited value back. An assignment goes
through ``restore`` too. Where no write could mean anything, ``read_only`` says what to write instead.

Places are spelled

``output``, ``input``
    what the host's own module returns, and the ``(args, kwargs)`` that it is called with;
``o_proj.input``
    the same of a module below the host, by standard or native name;
``:pos_embeds=.output``
    an operation inside the host's forward, named as in `belvedere.operations`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import torch
from greenlet import getcurrent
from nnsight.intervention.eproperty import WriteBack, eproperty
from nnsight.intervention.interleaver import Mediator

from belvedere import layouts
from belvedere.errors import InputError, Unavailable, WriteError
from belvedere.select import Part, Whole

if TYPE_CHECKING:
    from belvedere.components.standard import Standard

__all__ = [
    "KeptValue",
    "Place",
    "Reason",
    "Value",
    "absent",
    "as_held",
    "as_written",
    "changed",
    "heads_first",
    "stamp",
    "value",
]

T = TypeVar("T")
Reason = str | Callable[[Any], str | None] | None
Select = Part | Callable[[Any], Part]
Restore = Callable[[Any, Any, Any], Any]
Place = str | Callable[[Any], "tuple[Standard, str]"]


class Value(eproperty, Generic[T]):
    """A value of the running model, declared on a component.

    Args:
        at: Where it lives; a string in the spelling of the module docstring, or a function of the host that returns
            another envoy and such a string.
        select: Which part of what the place holds it is, or a function of the host that returns it.
        restore: The way back: ``restore(host, value, held)`` gives what the place holds from what a user wrote.
        unavailable: A reason why it cannot be had, or a function of the host that returns one or ``None``.
        read_only: What to write instead, for a value that cannot be written.
        description: The few words that ``repr(model)`` prints.

    Raises:
        Unavailable: On a read or a write, where the checkpoint does not have it.
        ValueError: On a read or a write outside of a trace.
        InputError: On a read or a write in a trace whose input does not make it, such as a tower's without a picture.
        WriteError: On a write to a read-only value, or of a wrong shape.
    """

    def __init__(
        self,
        at: Place,
        *,
        select: Select | None = None,
        restore: Restore | None = None,
        unavailable: Reason = None,
        read_only: str = "",
        description: str = "",
    ) -> None:
        super().__init__(key="", description=description or None)
        self.at = at
        self.select: Select = select or Whole()
        self.unavailable = unavailable
        self.read_only = read_only
        self._restore = restore

    def __call__(self, read: Callable[..., T]) -> Value[T]:
        """Adopt the view and its name."""
        super().__call__(read)
        self.description: str | None = self.description or (read.__doc__ or "").split("\n")[0].rstrip(".")
        return self

    @property
    def layout(self) -> str:
        """The name of the value's layout in `belvedere.layouts`."""
        return str(getattr(self._preprocess, "__annotations__", {}).get("return", "")).removeprefix("layouts.")

    @property
    def operation(self) -> str | None:
        """The operation of the host's own forward that it lives at, if it does."""
        if isinstance(self.at, str) and self.at.startswith(":"):
            return self.at[1:].rpartition(".")[0]
        return None

    def __str__(self) -> str:
        shape = layouts.shape(self.layout)
        returns = f" -> {self.layout} {shape}" if shape else ""
        return f"({self.name}){returns}: {self.description}"

    def reason(self, host: Standard) -> str | None:
        """Why the value cannot be had on this host, or ``None`` where it can."""
        given = self.unavailable(host) if callable(self.unavailable) else self.unavailable
        if given is not None or self.at == "":
            return given
        envoy, place = self._place(host)
        if place.startswith(":"):
            return envoy.missing_operation(place[1:].rpartition(".")[0])
        return None

    def location(self, host: Standard) -> str:
        """The place in nnsight's terms, such as ``model.model.layers.0.output``."""
        envoy, place = self._place(host)
        where, _, point = place.rpartition(".")
        if where.startswith(":"):
            return f"{envoy.operation_location(where[1:])}.{point}"
        return f"{envoy.get(where).path}.{point}" if where else f"{envoy.path}.{point}"

    def _place(self, host: Standard) -> tuple[Standard, str]:
        return self.at(host) if callable(self.at) else (host, self.at)

    def path(self, host: Standard) -> str:
        """The standard path, such as ``layers[0].layer_output``."""
        return f"{host.name}.{self.name}" if host.name else str(self.name)

    def part(self, host: Standard) -> Part:
        """Which part of what the place holds it is, on this host."""
        return self.select(host) if callable(self.select) else self.select

    def refuse(self, host: Standard) -> None:
        """Raise for a value that cannot be had here, or that is asked for outside of a trace."""
        reason = self.reason(host)
        if reason is not None:
            raise Unavailable(self.path(host), reason)
        if getattr(getcurrent(), "mediator", None) is None:
            raise ValueError(
                f"{self.path(host)} exists while the model runs: read it inside `with model.trace(...):` "
                "and keep it by `.save()`"
            )
        if not isinstance(self, KeptValue) and (idle := host.idle(str(self.name))) is not None:
            raise InputError(f"{self.path(host)} has no value in this trace: {idle}")

    @overload
    def __get__(self, host: None, owner: Any = None) -> Value[T]: ...
    @overload
    def __get__(self, host: Any, owner: Any = None) -> T: ...
    def __get__(self, host: Any, owner: Any = None) -> Any:
        if host is None:
            return self
        try:
            return self._get(host)
        except AttributeError as error:
            # An attribute error here would be answered as "no attribute of that name".
            raise RuntimeError(f"reading {self.path(host)} failed: {error}") from error

    def __set__(self, host: Any, value: Any) -> None:
        try:
            self._set(host, value)
        except AttributeError as error:
            raise RuntimeError(f"writing {self.path(host)} failed: {error}") from error

    def _get(self, host: Standard) -> Any:
        self.refuse(host)
        location = self.location(host)
        mediator = Mediator.current(location)
        occurrence = mediator.wanted(location)
        waiting = mediator.transform
        if waiting is not None and waiting.key == (self, location, occurrence):
            return waiting.view
        served = Mediator.value(location)
        held = self.part(host).get(served)
        view = self._view(host, held)
        if self._restore is not None and not self.read_only and not shares_memory(view, held):
            write = partial(self._written_back, host, view, stamp(view), served)
            mediator.transform = WriteBack(write, view, self, location, occurrence)
        return view

    def _view(self, host: Standard, held: Any) -> Any:
        view = self._preprocess(host, held) if self._preprocess is not None else held
        if isinstance(view, torch.Tensor) and view is not held and view._base is not None:
            # A view taken here is off the graph: nnsight then asks its base for the gradient.
            view._nnsight_batch = True  # type: ignore[attr-defined]
        return view

    def _written_back(self, host: Standard, view: Any, before: Any, served: Any) -> Any:
        if not changed(view, before):
            return served
        return self.part(host).put(served, self._held(host, view, self.part(host).get(served)))

    def _held(self, host: Standard, value: Any, held: Any) -> Any:
        return value if self._restore is None else self._restore(host, value, held)

    def _set(self, host: Standard, value: Any) -> None:
        self.refuse(host)
        if self.read_only:
            raise WriteError(f"{self.path(host)} cannot be written: {self.read_only}")
        location = self.location(host)
        served = Mediator.value(location)
        held = self.part(host).get(served)
        written = as_written(value, self._view(host, held), self.path(host), self.layout)
        Mediator.swap(location, self.part(host).put(served, self._held(host, written, held)))


class KeptValue(Value[T]):
    """A value made of something small that the run keeps, so that it can be read at any later point too."""

    def keep(self, host: Standard) -> None:
        """Ask the run to keep what this value is made of; called when the tree is built."""
        host.interleaver.keep(self.location(host), str(self.name), self.part(host).get)

    def now(self, host: Standard) -> Any:
        """The value as the run has kept it; ``None`` where the run has not come to it."""
        location = self.location(host)
        mediator = Mediator.current(location)
        kept = host.interleaver.kept(location, str(self.name), mediator)
        if not kept:
            return None
        batcher = host.interleaver.batcher
        held = kept[0] if batcher is None else batcher.narrow_at(location, kept[0], mediator.batch_group)
        return None if held is None else self._view(host, held)

    def _get(self, host: Standard) -> Any:
        self.refuse(host)
        kept = self.now(host)
        return super()._get(host) if kept is None else kept


def value(
    at: Place,
    *,
    kind: type[Value[Any]] = Value,
    select: Select | None = None,
    restore: Restore | None = None,
    unavailable: Reason = None,
    read_only: str = "",
    description: str = "",
) -> Callable[[Callable[..., T]], Value[T]]:
    """Declare a `Value` on a component, with the decorated function as its view; see `Value` for the arguments."""

    def adopt(read: Callable[..., T]) -> Value[T]:
        made = kind(
            at,
            select=select,
            restore=restore,
            unavailable=unavailable,
            read_only=read_only,
            description=description,
        )
        return made(read)

    return adopt


def heads_first(host: Any, edited: Any, held: Any) -> Any:
    """The way back for a value read with its heads before its positions."""
    return edited.transpose(1, 2)


def as_held(host: Any, edited: Any, held: Any) -> Any:
    """The way back for a value that is what the place holds in another shape."""
    return edited.reshape(held.shape)


def absent(name: str, reason: Reason, description: str = "") -> Value[Any]:
    """A value that this kind of component never has, declared with the reason."""

    def read(host: Any, held: Any) -> Any:
        return held

    read.__name__, read.__doc__, read.__annotations__ = name, description, {}
    return Value[Any]("", unavailable=reason, description=description)(read)


def as_written(value: Any, view: Any, path: str, layout: str) -> Any:
    """What was written, checked against what is there: a tensor of that shape, or a number for all of it.

    Raises:
        WriteError: The shape is another one, or the value is no tensor.
    """
    if not isinstance(view, torch.Tensor):
        if isinstance(value, (list, tuple)) and len(value) == len(view):
            return type(view)(as_written(one, was, path, layout) for one, was in zip(value, view, strict=True))
        raise WriteError(f"{path} is a {type(view).__name__} of {len(view)} tensors; write one of the same length")
    if isinstance(value, (int, float)):
        return torch.full_like(view, value)
    if not isinstance(value, torch.Tensor):
        raise WriteError(f"{path} takes a tensor or a number, not {type(value).__name__}")
    if value.shape != view.shape:
        raise WriteError(
            f"{path} is {layout}{layouts.shape(layout)} = {tuple(view.shape)} here; got {tuple(value.shape)}"
        )
    return value.to(view.device, view.dtype)


def shares_memory(view: Any, held: Any) -> bool:
    """Whether editing ``view`` in place edits ``held``."""
    if isinstance(view, torch.Tensor) and isinstance(held, torch.Tensor):
        return view.untyped_storage().data_ptr() == held.untyped_storage().data_ptr()
    return view is held


def stamp(view: Any) -> Any:
    """What `changed` compares against: a tensor's version, or a copy where tensors carry none."""
    if isinstance(view, (list, tuple)):
        return [(id(one), stamp(one)) for one in view]
    if view.is_inference():
        return view.clone()
    return view._version


def changed(view: Any, before: Any) -> bool:
    """Whether a value was edited in place since ``before`` was taken."""
    if isinstance(view, (list, tuple)):
        return len(view) != len(before) or any(
            id(one) != was[0] or changed(one, was[1]) for one, was in zip(view, before, strict=True)
        )
    if isinstance(before, torch.Tensor):
        return not torch.equal(view, before)
    return bool(view._version != before)
