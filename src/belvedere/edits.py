"""Edits in place of values that are not the model's own memory: held while the model waits, then written back.

A pattern, a list of pictures' features or a copied mask is made when it is read. An edit of it must be carried to the
model before the model moves on, and one that comes later must not vanish: it raises.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from nnsight.intervention.interleaver import Mediator

from belvedere.errors import WriteError

__all__ = [
    "SHARED",
    "PendingEdit",
    "changed",
    "hold",
    "is_shared",
    "pending",
    "shares_memory",
    "stamp",
    "visit",
    "watch",
]

#: What a write of one invoke says to a value that all invokes of its trace share.
SHARED = "this value is shared by all invokes of the trace; write it in a trace of its own"

Key = tuple[Any, str, int | None]


class PendingEdit:
    """A value that a worker holds, and what nnsight writes when the worker moves on.

    Args:
        view: What the worker holds.
        key: Which descriptor handed it out, at which visit of which location.
        unedited: ``(location, value)`` to write where the view was left as it is, which changes nothing.
        edited: ``(location, function)`` that gives what to write where it was edited.
        path: The value's standard path, for messages.
    """

    def __init__(
        self,
        view: Any,
        key: Key,
        unedited: tuple[str, Any],
        edited: tuple[str, Callable[[], Any]],
        path: str,
    ) -> None:
        self.view, self.key, self.unedited, self.edited, self.path = view, key, unedited, edited, path
        self.before = stamp(view)
        self.shapes = shapes(view)

    @property
    def is_edited(self) -> bool:
        """Whether the worker changed the view."""
        return changed(self.view, self.before)

    @property
    def occurrence(self) -> int | None:
        """The visit that the view was read at."""
        return self.key[2]

    @property
    def location(self) -> str:
        """Where nnsight writes."""
        return self.edited[0] if self.is_edited else self.unedited[0]

    def fn(self) -> Any:
        """What nnsight writes there."""
        if not self.is_edited:
            return self.unedited[1]
        if shapes(self.view) != self.shapes:
            raise WriteError(f"{self.path} was {self.shapes} and is {shapes(self.view)} now; keep the shapes")
        return self.edited[1]()


class PendingEdits:
    """Several values that were read at one visit; at most one of them may be edited."""

    def __init__(self, edits: list[PendingEdit]) -> None:
        self.edits = edits

    @property
    def key(self) -> None:
        """No one descriptor's; `pending` looks inside."""
        return

    @property
    def is_edited(self) -> bool:
        """Whether the worker changed one of the views."""
        return any(one.is_edited for one in self.edits)

    @property
    def chosen(self) -> PendingEdit:
        """The edited one, or the first."""
        edited = [one for one in self.edits if one.is_edited]
        if len(edited) > 1:
            names = " and ".join(one.path for one in edited)
            raise WriteError(f"{names} were both edited, and each says what the other is; edit one of them")
        return (edited or self.edits)[0]

    @property
    def view(self) -> Any:
        """The view of the chosen one."""
        return self.chosen.view

    @property
    def occurrence(self) -> int | None:
        """The visit that all of them were read at."""
        return self.edits[0].occurrence

    @property
    def location(self) -> str:
        """Where nnsight writes."""
        return self.chosen.location

    def fn(self) -> Any:
        """What nnsight writes there."""
        return self.chosen.fn()


def pending(mediator: Mediator, key: Key) -> PendingEdit | None:
    """The value of this descriptor that the worker holds from this visit, if it does."""
    waiting = mediator.transform
    if isinstance(waiting, PendingEdits):
        return next((one for one in waiting.edits if one.key == key), None)
    return waiting if isinstance(waiting, PendingEdit) and waiting.key == key else None


def hold(host: Any, mediator: Mediator, edit: PendingEdit) -> None:
    """Have an edit of this view written back when the worker moves on; a later one raises at the end of the run."""
    waiting = mediator.transform
    held = waiting.edits if isinstance(waiting, PendingEdits) else [waiting] if waiting is not None else []
    mediator.transform = PendingEdits([*held, edit]) if held else edit
    message = f"{edit.path} was edited after another value was read, too late to land: edit it at once"
    watch(host, edit.view, message, edit)


def visit(location: str) -> Any:
    """What a location serves; read again without moving on while the worker holds unedited values from there."""
    mediator = Mediator.current(location)
    occurrence = mediator.wanted(location)
    last, waiting = getattr(mediator, "last_visit", None), mediator.transform
    here = last and last[:2] == (location, occurrence) and mediator.occurrence(location) == occurrence
    if last and here and waiting is not None and not waiting.is_edited:
        return last[2]
    served = Mediator.value(location)
    mediator.last_visit = (location, occurrence, served)
    return served


def is_shared(host: Any, location: str, held: Any) -> bool:
    """Whether what a location serves is one tensor for all invokes, so that no invoke may edit it."""
    asked = getattr(host.interleaver.batcher, "is_shared", None)
    return asked is not None and bool(asked(location, held))


def watch(host: Any, view: Any, message: str, edit: PendingEdit | None = None) -> None:
    """Raise at the end of the run if this view was edited where no edit of it lands."""
    host.interleaver.watch(_Watched(view, message, edit))


class _Watched:
    """A view that may not be edited, or not after its edit was written back.

    The latter is held weakly: patterns are large, and what nobody holds nobody edits.
    """

    def __init__(self, view: Any, message: str, edit: PendingEdit | None) -> None:
        tensors = view if isinstance(view, (list, tuple)) else [view]
        self.views = [(weakref.ref(one), stamp(one)) for one in tensors if isinstance(one, torch.Tensor)]
        self.message = message
        if edit is not None:
            self._follow(edit)
        else:
            self.held = view

    def _follow(self, edit: PendingEdit) -> None:
        """Take the stamps anew when the edit is written back."""
        write = edit.fn

        def written() -> Any:
            result = write()
            self.views = [(one, stamp(held)) for one, _ in self.views if (held := one()) is not None]
            return result

        edit.fn = written  # type: ignore[method-assign]

    def check(self) -> None:
        """Raise if a view that someone still holds was edited."""
        for reference, before in self.views:
            held = reference()
            if held is not None and changed(held, before):
                raise WriteError(self.message)


def shapes(view: Any) -> Any:
    """The shape of a tensor, or of each of several."""
    if isinstance(view, torch.Tensor):
        return tuple(view.shape)
    return [shapes(one) for one in view] if isinstance(view, (list, tuple)) else None


def shares_memory(view: Any, held: Any) -> bool:
    """Whether editing ``view`` in place edits ``held``."""
    if isinstance(view, torch.Tensor) and isinstance(held, torch.Tensor):
        return view.untyped_storage().data_ptr() == held.untyped_storage().data_ptr()
    return view is held


def stamp(view: Any) -> Any:
    """What `changed` compares against: a tensor's version, or a copy where tensors carry none."""
    if isinstance(view, (list, tuple)):
        return [(id(one), stamp(one)) for one in view]
    if not isinstance(view, torch.Tensor):
        return None
    return view.clone() if view.is_inference() else view._version


def changed(view: Any, before: Any) -> bool:
    """Whether a value was edited in place since ``before`` was taken."""
    if isinstance(view, (list, tuple)):
        return len(view) != len(before) or any(
            id(one) != was[0] or changed(one, was[1]) for one, was in zip(view, before, strict=True)
        )
    if isinstance(before, torch.Tensor):
        return not torch.equal(view, before)
    return before is not None and bool(view._version != before)
