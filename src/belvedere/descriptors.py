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
    an operation inside the host's forward, named as in `belvedere.operations`;
``embeddings:pos_embeds=.output``
    the same of a module below, whose envoy lists it in its ``OPERATIONS``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import torch
from greenlet import getcurrent
from nnsight.intervention.eproperty import eproperty
from nnsight.intervention.interleaver import Mediator, OutOfOrderError

from belvedere import layouts
from belvedere.edits import SHARED, PendingEdit, hold, is_shared, pending, shares_memory, visit, watch
from belvedere.errors import InputError, Unavailable, WriteError
from belvedere.gradients import is_one_of_many, is_weight, reachable
from belvedere.operations import missing_module
from belvedere.select import Part, Whole
from belvedere.written import as_written

if TYPE_CHECKING:
    from belvedere.components.standard import Standard

__all__ = [
    "KeptValue",
    "Place",
    "Reason",
    "RebuiltValue",
    "Value",
    "absent",
    "as_held",
    "heads_first",
    "value",
]

T = TypeVar("T")
Reason = str | Callable[[Any], str | None] | None
Select = Part | Callable[[Any], Part]
Restore = Callable[[Any, Any, Any], Any]
Place = str | Callable[[Any], "tuple[Any, str]"]


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
        recomputed: What it is computed from when it is read, where the forward need not make such a tensor itself;
            empty for the model's own.

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
        recomputed: str = "",
    ) -> None:
        super().__init__(key="", description=description or None)
        self.recomputed = recomputed
        self.at = at
        self.select: Select = select or Whole()
        self.unavailable = unavailable
        self.read_only = read_only
        self._restore = restore

    def __call__(self, read: Callable[..., T]) -> Value[T]:
        """Adopt the view and its name."""
        super().__call__(read)
        self.description: str | None = self.description or (read.__doc__ or "").split("\n")[0].rstrip(".")
        self.__doc__ = f"{self.layout} {layouts.shape(self.layout)}\n\n{getdoc(read)}".strip()
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
        given = host.never() if given is None else given
        if given is not None or self.at == "":
            return given
        envoy, place = self._place(host)
        where = place.rpartition(".")[0]
        return envoy.missing_operation(where[1:]) if where.startswith(":") else missing_module(envoy, where)

    def location(self, host: Standard) -> str:
        """The place in nnsight's terms, such as ``model.model.layers.0.output``."""
        envoy, place = self._place(host)
        where, _, point = place.rpartition(".")
        if where.startswith(":"):
            return f"{envoy.operation_location(where[1:])}.{point}"
        return f"{envoy.get(where).path}.{point}" if where else f"{envoy.path}.{point}"

    def _place(self, host: Standard) -> tuple[Standard, str]:
        envoy, place = self.at(host) if callable(self.at) else (host, self.at)
        below, colon, operation = place.partition(":")
        return (envoy.get(below), f":{operation}") if below and colon else (envoy, place)

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
                f"and keep it by `.save()`; `model.describe({self.path(host)!r})` says what it is"
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
        except OutOfOrderError as error:
            raise self._late(host, error) from None

    def __set__(self, host: Any, value: Any) -> None:
        try:
            self._set(host, value)
        except AttributeError as error:
            raise RuntimeError(f"writing {self.path(host)} failed: {error}") from error
        except OutOfOrderError as error:
            raise self._late(host, error) from None

    def _late(self, host: Standard, error: Any) -> Any:
        """The same error, by the value's own name; the run looks for this very object."""
        place = str(error.args[0]) if error.args else ""
        if not place.startswith(self.path(host)):
            error.args = (
                f"{self.path(host)} was asked for when the model had already passed it, or never came to it; "
                f"a block reads values in the order in which the model computes them ({place})",
            )
        return error

    def _get(self, host: Standard) -> Any:
        self.refuse(host)
        location = self.location(host)
        mediator = Mediator.current(location)
        key = (self, location, mediator.wanted(location))
        waiting = pending(mediator, key)
        if waiting is not None:
            return waiting.view
        name_call(self, host, mediator, location)
        return self._serve(host, mediator, key, visit(location))

    def _serve(self, host: Standard, mediator: Mediator, key: Any, served: Any) -> Any:
        """What a user is given of what the place serves at this visit; ``key`` says which visit it is."""
        location = key[1]
        held = self.part(host).get(served)
        if is_one_of_many(held) or is_weight(held):
            # A copy in its place can be edited, and has a gradient; read it again as the model will.
            Mediator.swap(location, self.part(host).put(served, held.clone()))
            served = Mediator.value(location)
            held = self.part(host).get(served)
        view = self._view(host, held)
        refused = f"{self.path(host)} cannot be written: {self.read_only}" if self.read_only else SHARED
        if self.read_only or is_shared(host, location, held):
            watch(host, view, refused)
        elif self._restore is not None and not shares_memory(view, held):
            written = partial(self._written_back, host, view, served)
            hold(host, mediator, PendingEdit(view, key, (location, served), (location, written), self.path(host)))
        return view

    def _view(self, host: Standard, held: Any) -> Any:
        view = self._preprocess(host, held) if self._preprocess is not None else held
        for one in view if isinstance(view, list) else [view]:
            if isinstance(one, torch.Tensor) and one is not held:
                reachable(one)
        return view

    def _written_back(self, host: Standard, view: Any, served: Any) -> Any:
        part = self.part(host)
        return part.put(served, self._held(host, view, part.get(served)))

    def _held(self, host: Standard, value: Any, held: Any) -> Any:
        return value if self._restore is None else self._restore(host, value, held)

    def _set(self, host: Standard, value: Any) -> None:
        self.refuse(host)
        if self.read_only:
            raise WriteError(f"{self.path(host)} cannot be written: {self.read_only}")
        location = self.location(host)
        name_call(self, host, Mediator.current(location), location)
        self._write(host, value, location, visit(location))

    def _write(self, host: Standard, value: Any, location: str, served: Any) -> None:
        """Give the model what a user wrote, in the place of what was served."""
        held = self.part(host).get(served)
        written = as_written(value, self._view(host, held), self.path(host), self.layout)
        Mediator.swap(location, self.part(host).put(served, self._held(host, written, held)))


class RebuiltValue(Value[T]):
    """A value that the model is given back anew, made of what a user reads.

    For a value that is picked out of what the place holds, or whose tensor the model changes in place later: what a
    user holds is never the model's own, and is still on the way to the logits, for gradients and for edits in place.
    """

    def _serve(self, host: Standard, mediator: Mediator, key: Any, served: Any) -> Any:
        location = key[1]
        view = self._view(host, self.part(host).get(served))
        rebuilt = partial(self._written_back, host, view, served)
        unedited = rebuilt()
        Mediator.swap(location, unedited)
        # What a user reads next at this visit is of the same tensors.
        mediator.last_visit = (location, mediator.wanted(location), unedited)
        hold(host, mediator, PendingEdit(view, key, (location, unedited), (location, rebuilt), self.path(host)))
        return view


class KeptValue(Value[T]):
    """A value made of something small that the run keeps, so that it can be read at any later point too.

    It is served as a copy: an edit lands while the model is where the value is made, and is refused later.

    Args:
        missing: What to say where the input has nothing to make it of.
        **given: As for `Value`.
    """

    def __init__(self, at: Place, *, missing: str = "its input has no token ids", **given: Any) -> None:
        super().__init__(at, **{"restore": as_edited, **given})
        self.missing = missing

    def keep(self, host: Standard) -> None:
        """Ask the run to keep what this value is made of; called when the tree is built."""
        host.interleaver.keep(self.location(host), str(self.name), self.part(host).get)

    def now(self, host: Standard) -> tuple[Any, ...]:
        """What the run has kept, as the running block sees it, as a 1-tuple; empty where the run is not there yet."""
        location = self.location(host)
        mediator = Mediator.current(location)
        kept = host.interleaver.kept(location, str(self.name), mediator)
        narrow = getattr(host.interleaver.batcher, "narrow_at", None)
        return kept if not kept or narrow is None else (narrow(location, kept[0], mediator.batch_group),)

    def _get(self, host: Standard) -> Any:
        self.refuse(host)
        kept = self.now(host)
        if not kept:
            return super()._get(host)
        view = self._view(host, kept[0])
        late = f"the model has read {self.path(host)} by now"
        watch(host, view, f"{late}, so an edit cannot land: assign it as the first thing in the trace")
        return view

    def _view(self, host: Standard, held: Any) -> Any:
        if not isinstance(held, torch.Tensor):
            raise InputError(f"{self.path(host)} has no value in this trace: {self.missing}")
        return super()._view(host, held.clone())


def value(
    at: Place,
    *,
    kind: Callable[..., Value[Any]] = Value,
    select: Select | None = None,
    restore: Restore | None = None,
    unavailable: Reason = None,
    read_only: str = "",
    description: str = "",
    recomputed: str = "",
) -> Callable[[Callable[..., T]], Value[T]]:
    """Declare a `Value` on a component, with the decorated function as its view; see `Value` for the arguments."""

    def adopt(read: Callable[..., T]) -> Value[T]:
        given: dict[str, Any] = {
            "select": select,
            "unavailable": unavailable,
            "read_only": read_only,
            "description": description,
            "recomputed": recomputed,
        }
        if restore is not None:
            given["restore"] = restore
        made = kind(at, **given)
        return made(read)

    return adopt


def name_call(value: Value[Any], host: Standard, mediator: Mediator, location: str) -> None:
    """Note a visit that does not say which call it means, for the run to check at its end."""
    if mediator.iteration == 0 and not getattr(mediator, "named_call", False):
        host.interleaver.read_once(location, value.path(host))


def heads_first(host: Any, edited: Any, held: Any) -> Any:
    """The way back for a value read with its heads before its positions."""
    return edited.transpose(1, 2)


def as_edited(host: Any, edited: Any, held: Any) -> Any:
    """The way back for a value that is a copy of what the place holds."""
    return edited


def as_held(host: Any, edited: Any, held: Any) -> Any:
    """The way back for a value that is what the place holds in another shape."""
    return edited.reshape(held.shape)


def absent(name: str, reason: Reason, description: str = "") -> Value[Any]:
    """A value that this kind of component never has, declared with the reason."""

    def read(host: Any, held: Any) -> Any:
        return held

    read.__name__, read.__doc__, read.__annotations__ = name, description, {}
    return Value[Any]("", unavailable=reason, description=description)(read)
