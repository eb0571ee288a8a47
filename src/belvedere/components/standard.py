"""The envoy that all components share: its values, their reasons, and the sizes of their axes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from greenlet import getcurrent
from nnsight.intervention.envoy import Envoy
from nnsight.intervention.source import install_controller

from belvedere import layouts
from belvedere.components.calls import Called
from belvedere.descriptors import KeptValue, Value
from belvedere.operations import install
from belvedere.spelling import did_you_mean, meant, nearest

if TYPE_CHECKING:
    from belvedere.components.describing import Descriptions

__all__ = ["NoName", "Note", "Standard", "blocks", "is_lost"]


class NoName(AttributeError):  # noqa: N818 - it is an attribute error, worded late
    """No such name; building a tree asks for many, so the message is only made where someone reads it."""

    def __init__(self, say: Callable[[], str]) -> None:
        super().__init__()
        self._say = say

    def __str__(self) -> str:
        return self._say()


class Note(str):
    """What `support(notes=True)` says of a value that reads although nothing in the forward depends on it."""

    __slots__ = ()


def is_lost(host: Any, name: str) -> bool:
    """Whether a write of this name vanishes: inside a trace, and it is no name of the host."""
    running = getattr(getcurrent(), "mediator", None) is not None
    return running and not name.startswith("_") and name not in vars(host) and not hasattr(type(host), name)


class Help:
    """The docstring of a class as it is, and of an envoy with its own values: what `help` and ``?`` show."""

    def __init__(self, written: str | None) -> None:
        self.written = written

    def __get__(self, host: Standard | None, owner: type) -> str | None:
        if host is None or "_child_map" not in vars(host):
            return self.written
        return f"{inspect.cleandoc(inspect.getdoc(owner) or '')}\n\n{host.describe()}\n"


class Standard(Envoy):
    """An envoy whose values have standard names.

    Attributes:
        OPERATIONS: Operations of this module's forward that values of *other* hosts live at. A forward is bracketed
            when the tree is built, so that its values are served even after its call has begun.
        IMAGE_OPERATIONS: Those whose arguments are counted in image tokens.
        AXES: Which attribute of this envoy answers an axis of a layout.
        NOTES: What to know of a value that can be read although nothing in the forward reads it.
        ENTERS: The values through which image information enters the text model here.
    """

    OPERATIONS: ClassVar[tuple[str, ...]] = ()
    IMAGE_OPERATIONS: ClassVar[tuple[str, ...]] = ()
    AXES: ClassVar[dict[str, str]] = {}
    NOTES: ClassVar[dict[str, str]] = {}
    ENTERS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        document(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bracket()

    def _update(self, module: Any) -> None:
        super()._update(module)
        self._bracket()

    def _bracket(self) -> None:
        values = self.values().values()
        wanted = [*self._wanted(), *(found.operation for found in values if found.operation)]
        self._operations = install(self, dict.fromkeys(wanted)) if wanted else {}
        for kept in values:
            if isinstance(kept, KeptValue) and kept.reason(self) is None:
                kept.keep(self)

    def _wanted(self) -> tuple[str, ...]:
        """The operations of this module's forward to bracket for values of other hosts."""
        return self.operations()

    @property
    def name(self) -> str:
        """The standard path from the root, such as ``vision.layers[3].self_attn``; empty for the root."""
        host = self.host
        own = self._own_name()
        return f"{host.name}.{own}" if host is not None and host.name else own

    def _own_name(self) -> str:
        return str(self.path).rpartition(".")[2]

    @property
    def part(self) -> str:
        """The standard name under its host, such as ``self_attn``."""
        return self._own_name()

    @property
    def host(self) -> Standard | None:
        """The nearest standard envoy above this one."""
        above = self.parent
        while above is not None and not isinstance(above, Standard):
            above = above.parent
        return above

    @classmethod
    def values(cls) -> dict[str, Value[Any]]:
        """The values of this kind of envoy, by name, in the order of the forward."""
        kind: Any = cls
        return dict(_declared(kind))

    def support(self, *, notes: bool = False) -> dict[str, Any]:
        """Each value of this envoy: ``None`` where it reads, else the reason why it does not.

        Args:
            notes: Give a `Note` for a value that reads although nothing in the forward depends on it.
        """
        rows: dict[str, Any] = {name: found.reason(self) for name, found in self.values().items()}
        if not notes:
            return rows
        remarks = {name: self.remark(name) for name, reason in rows.items() if reason is None}
        return rows | {name: Note(said) for name, said in remarks.items() if said is not None}

    def remark(self, name: str) -> str | None:
        """What to know of a value that can be read although nothing reads it; ``None`` where something does."""
        return self.NOTES.get(name) or self.unread()

    def unread(self) -> str | None:
        """Why nothing of this envoy reaches the logits; ``None`` where it does."""
        return None if self.host is None else self.host.unread()

    def tree(self) -> str:
        """Every module below this one, by standard and native name, and every value with its shape, to print.

        Those that do not read are named together; `support` says why.
        """
        from belvedere.components.tree import tree

        return tree(self)

    def describe(self, path: str = "") -> Descriptions:
        """What a value means, its shape here, its place in the order of the forward, whether it can be written.

        It needs no run::

            model.describe("layers.layer_output")
            model.describe("vision.layers[0].self_attn")
            model.layers[3].mlp.describe()

        Args:
            path: A value, with or without block number and part, or a part, for all its values; by default all values
                of this envoy itself.

        Raises:
            ValueError: There is no such value or part; the message names the nearest.
            Unavailable: It is of a tower, and there is none.
        """
        from belvedere.components.describing import describe

        return describe(self, path)

    def __repr__(self) -> str:
        """`tree`, or less where an envoy has a summary of its own."""
        return self.tree()

    def __dir__(self) -> list[str]:
        """What a notebook completes: parts, sizes, methods, and the values that read here."""
        missing = {name for name, found in self.values().items() if found.reason(self) is not None}
        return [name for name in super().__dir__() if name not in missing]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name.startswith("_") or "_child_map" not in self.__dict__:
                raise
            raise NoName(lambda: f"{self.name or 'the model'} has no {name!r}{self.hint(name)}") from error

    def __setattr__(self, name: str, written: Any) -> None:
        """Write a value; inside a trace, a name that is none here is refused, or the write would vanish."""
        if is_lost(self, name):
            raise AttributeError(f"{self.name or 'the model'} has no value {name!r} to write{self.hint(name)}")
        super().__setattr__(name, written)

    def hint(self, name: str) -> str:
        """For the end of a message: where a value of this name is, or the nearest name here or below."""
        below = [one for one in self.modules() if isinstance(one, Standard) and one is not self]
        # Of one block's parts the number is known; of the parts of a stack any block's will do.
        places = {host: host.name if "[" in self.name else re.sub(r"\[\d+\]", "[i]", host.name) for host in below}
        places |= {host: host.name for host in self._above()}
        having = [where or "the model" for host, where in places.items() if name in host.values()]
        if having:
            return f"; it is a value of {' and '.join(dict.fromkeys(having))}"
        deeper = {found: f"{places[host]}.{found}" for host in below for found in host.values()}
        own = [*self.values(), *self._child_map, *self._aliases, *_public(type(self))]
        near = nearest(name, [*own, *deeper])
        return "" if near is None else meant(near if near in own else deeper[near])

    def _above(self) -> Iterator[Standard]:
        above = self.host
        while above is not None:
            yield above
            above = above.host

    def call(self, number: int) -> Called:
        """The values of this envoy, or of what is below it, at one of several calls of a forward.

        A tower that sees pictures and then a video runs twice; ``model.vision.call(1).tower_output`` is the video's.

        Args:
            number: Which call, from 0, in the order of the forward.
        """
        return Called(self, number)

    @property
    def num_calls(self) -> int:
        """Inside a trace: how many times this envoy's module has been called so far."""
        return int(self.interleaver.calls(f"{self.path}.input"))

    def never(self) -> str | None:
        """Why this part of the model runs under no input at all; ``None`` where it does."""
        host = self.host
        return None if host is None else host.never()

    def idle(self, name: str) -> str | None:
        """Why the input of the running trace does not make a value of this envoy; ``None`` where it does."""
        host = self.host
        return None if host is None else host.idle(name)

    @classmethod
    def operations(cls) -> tuple[str, ...]:
        """`OPERATIONS`, for a component that makes them of its other settings."""
        return cls.OPERATIONS

    def missing_operation(self, operation: str) -> str | None:
        """The reason, where this transformers' forward has no such operation."""
        of_any_run = _of_any_run(operation)
        if of_any_run.endswith("#") and install_controller(self).sourced:
            return (
                f"`.source` was asked for on {self.path}, which brackets its forward anew and numbers nothing inside "
                "a loop; load the model again"
            )
        if of_any_run in self._operations:
            return None
        import transformers

        return (
            f"the forward of {type(self._module).__name__} in transformers {transformers.__version__} has no operation "
            f"`{operation}`; use a release that Belvedere was tested with, or name the operation in your own family"
        )

    def operation_location(self, operation: str) -> str:
        """Where nnsight serves an operation of this module's forward."""
        of_any_run = _of_any_run(operation)
        return self._operations[of_any_run] + operation.removeprefix(of_any_run)

    def axis_size(self, axis: str) -> int:
        """The size of a layout's axis, from this envoy or the nearest one above that has it.

        Args:
            axis: An axis name of `belvedere.layouts`, such as ``"hidden"``.

        Returns:
            The size, known without a run.

        Raises:
            ValueError: The axis depends on the input (``batch``, ``seq``, ``patches``, ...) or is of no layout.
        """
        above: Standard | None = self
        while above is not None:
            if axis in above.AXES:
                return int(getattr(above, above.AXES[axis]))
            above = above.host
        if axis not in (known := layouts.all_axes()):
            raise ValueError(f"no layout has an axis {axis!r}{did_you_mean(axis, known)}")
        raise ValueError(f"the size of axis {axis!r} is not fixed by the checkpoint: read it off a value's shape")


def document(kind: Any) -> None:
    """Let `help` of an envoy of a kind show its values."""
    kind.__doc__ = Help(vars(kind).get("__doc__"))


document(Standard)


def _public(kind: type) -> list[str]:
    """What Belvedere's own classes give an envoy beside its values: sizes and methods."""
    ours = (klass for klass in kind.__mro__ if klass.__module__.startswith("belvedere."))
    return [name for klass in ours for name in vars(klass) if name.islower() and not name.startswith("_")]


def _of_any_run(operation: str) -> str:
    """An operation inside a loop without the number of its run."""
    name, mark, _ = operation.partition("#")
    return name + mark


@cache
def _declared(kind: Any) -> dict[str, Value[Any]]:
    """The values that a kind of envoy and its bases declare."""
    found: dict[str, Value[Any]] = {}
    for klass in reversed(kind.__mro__):
        found |= {name: entry for name, entry in vars(klass).items() if isinstance(entry, Value)}
    return found


def blocks(numbers: list[int]) -> str:
    """Block numbers for a sentence, runs folded: ``[0, 1, 2, 5]`` gives ``"0-2, 5"``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
