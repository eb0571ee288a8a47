"""What a run of a tower stands on, between two of its blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.staged.segments import Pack

__all__ = ["Call", "State", "apart"]

#: Where a saved state's numbers and names are, in the file's metadata.
KEY = "belvedere.state"
#: On a tensor whose sizes a compiler was told of.
MARKED = "_belvedere_sizes_are_free"


@dataclass(frozen=True, eq=False)
class Call:
    """What a block is called with beside the stream, as the tower's own forward calls it.

    Args:
        args: What follows the stream by position.
        kwargs: What is passed by keyword.
        keyword: The name of the stream, where it is passed by one.
        seam: Whether the tower makes something of the stream between the block before and this one.
        pack: The attending segments, laid out for an attention that runs in one call, where the blocks get them as
            bounds of a packed row.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    keyword: str = ""
    seam: bool = False
    pack: Pack | None = None

    def __call__(self, block: Callable[..., Any], hidden: Tensor) -> Tensor:
        """The stream that leaves a block."""
        if self.keyword:
            output = block(*self.args, **{self.keyword: hidden, **self.kwargs})
        else:
            output = block(hidden, *self.args, **self.kwargs)
        stream: Tensor = output[0] if isinstance(output, tuple) else output
        return stream


@dataclass(frozen=True, eq=False)
class State:
    """A tower's run between two blocks: the stream, and all that the blocks and the wrapper are called with.

    A state is never changed: `Staged.encode` and `replace` make new ones, which share what is equal.

    Args:
        hidden: The stream ``[images, patches, vision_hidden]``, as ``layer_output`` is: a packed row has a leading 1.
        block: The number of the block that comes next; the number of blocks, behind the last.
        calls: What each block is called with.
        streams: Streams that blocks left and that the wrapper reads beside the last one, by block; -1 is what entered
            the first.
        reads: The blocks whose streams the wrapper reads.
        source: What the wrapper is called with: pixels, grid and the like.
        packed: Whether every picture's patches are in one row.
        row: Whether the blocks take that row as a matrix, without a leading axis.
        in_tuple: Whether the blocks return their stream in a tuple.
        patches: The shape that the patch embedding returns; ``None`` where it is no one tensor.
    """

    hidden: Tensor
    block: int
    calls: tuple[Call, ...]
    source: Mapping[str, Any]
    streams: Mapping[int, Tensor] = field(default_factory=dict)
    reads: tuple[int, ...] = ()
    packed: bool = False
    row: bool = False
    in_tuple: bool = False
    patches: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not torch.compiler.is_compiling():
            _free_sizes(self)

    def replace(self, *, hidden: Tensor) -> State:
        """The same state with another stream, ``[images, patches, vision_hidden]``.

        Raises:
            InputError: It is of another shape.
        """
        if not isinstance(hidden, Tensor) or not hidden.is_floating_point():
            what = f"of {hidden.dtype}" if isinstance(hidden, Tensor) else f"a {type(hidden).__name__}"
            raise InputError(f"the new stream is {what}; pass a tensor of real numbers")
        if hidden.shape != self.hidden.shape:
            raise InputError(
                f"the stream is {list(self.hidden.shape)} and the new one {list(hidden.shape)}; "
                "pass one of the same shape, or embed those pictures"
            )
        return replace(self, hidden=hidden)

    @property
    def kept(self) -> dict[int, Tensor]:
        """Every stream that the state knows, by the block that it left: `streams`, and `hidden`."""
        return {**self.streams, self.block - 1: self.hidden}

    def native(self, stream: Tensor) -> Tensor:
        """A stream in the shape in which the blocks take it."""
        return stream[0] if self.row else stream

    def returned(self, stream: Tensor) -> Any:
        """A stream in the form in which the blocks return it."""
        return (self.native(stream),) if self.in_tuple else self.native(stream)

    def standard(self, stream: Tensor) -> Tensor:
        """A block's stream as ``[images, patches, vision_hidden]``."""
        return stream[None] if self.row else stream

    def to(self, device: torch.device | str) -> State:
        """The same state on another device."""
        moved: State = _mapped(self, lambda held: held.to(device))
        return moved

    def save(self, path: str | Path) -> None:
        """Write the state to a safetensors file; what is computed is kept, gradients are not.

        Args:
            path: The file.
        """
        from safetensors.torch import save_file

        tensors: dict[str, Tensor] = {}
        names: dict[int, str] = {}
        tree = {one.name: _written(getattr(self, one.name), tensors, names) for one in fields(self)}
        save_file(tensors, path, metadata={KEY: json.dumps(tree)})

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> State:
        """Read a state that `save` wrote.

        Args:
            path: The file.
            device: Where to put its tensors.

        Raises:
            InputError: The file holds no state.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt", device=str(device)) as opened:
                tree = (opened.metadata() or {}).get(KEY)
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping
        except SafetensorError as error:
            raise InputError(f"{str(path)!r} is no safetensors file: {error}") from error
        if tree is None:
            raise InputError(f"{str(path)!r} holds no state of a tower; pass a file that State.save wrote")
        return cls(**{name: _read(held, tensors) for name, held in json.loads(tree).items()})

    def __repr__(self) -> str:
        where = f"before block {self.block}" if self.block < len(self.calls) else "behind the last block"
        call = self.calls[min(self.block, len(self.calls) - 1)]
        beside = [*map(_shown, call.args), *(f"{name} {_shown(held)}" for name, held in call.kwargs.items())]
        lines = [
            f"{where}, of {len(self.calls)}",
            f"hidden: {_shown(self.hidden)}, {self.hidden.dtype}, {self.hidden.device}",
            f"blocks get: {', '.join(beside) or 'the stream alone'}",
            f"kept: {', '.join(f'block {number} {_shown(held)}' for number, held in self.streams.items()) or 'none'}",
            f"wrapper gets: {', '.join(f'{name} {_shown(held)}' for name, held in self.source.items())}",
        ]
        return "State(\n" + "".join(f"  {line}\n" for line in lines) + ")"


def apart(held: Any) -> Any:
    """The same tree with no tensor a view of another, but for those that repeat theirs.

    A view keeps what it is a view of, and a compiler looks at that too.
    """

    def copied(one: Tensor) -> Tensor:
        return one if one._base is None or 0 in one.stride() else one.clone()

    return _mapped(held, copied)


def _shown(held: Any) -> str:
    """Shapes for tensors, wherever they are."""
    if isinstance(held, Tensor):
        return str(list(held.shape))
    if isinstance(held, (tuple, list)):
        return f"({', '.join(map(_shown, held))})"
    return repr(held)


def _mapped(held: Any, change: Callable[[Tensor], Tensor], done: dict[int, Any] | None = None) -> Any:
    """The same tree with every tensor changed; what was one object stays one."""
    done = {} if done is None else done
    if id(held) not in done:
        done[id(held)] = _changed(held, change, done)
    return done[id(held)]


def _changed(held: Any, change: Callable[[Tensor], Tensor], done: dict[int, Any]) -> Any:
    if isinstance(held, Tensor):
        return change(held)
    if isinstance(held, (State, Call)):
        return type(held)(**{one.name: _mapped(getattr(held, one.name), change, done) for one in fields(held)})
    if isinstance(held, Mapping):
        return {key: _mapped(entry, change, done) for key, entry in held.items()}
    if isinstance(held, Pack):
        return Pack(*(_mapped(entry, change, done) for entry in held))
    if isinstance(held, (tuple, list)):
        return type(held)(_mapped(entry, change, done) for entry in held)
    return held


def _written(held: Any, tensors: dict[str, Tensor], names: dict[int, str]) -> Any:
    """A tree as JSON, its tensors put aside, each once.

    Raises:
        InputError: Something in it is neither a tensor nor plain.
    """
    if isinstance(held, Tensor):
        name = names.setdefault(id(held), str(len(names)))
        turned = torch.view_as_real(held) if held.is_complex() else held
        tensors[name] = turned.detach().clone().contiguous()
        return {"complex" if held.is_complex() else "tensor": name}
    if isinstance(held, Call):
        return {"call": {one.name: _written(getattr(held, one.name), tensors, names) for one in fields(held)}}
    if isinstance(held, Mapping):
        return {"mapping": [[key, _written(entry, tensors, names)] for key, entry in held.items()]}
    if isinstance(held, (tuple, list)):
        kind = "pack" if isinstance(held, Pack) else "tuple" if isinstance(held, tuple) else "list"
        return {kind: [_written(entry, tensors, names) for entry in held]}
    if held is None or isinstance(held, (bool, int, float, str)):
        return {"plain": held}
    raise InputError(f"a state with {held!r} cannot be saved; pass the wrapper tensors and plain values only")


def _read(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The way back from `_written`."""
    ((kind, held),) = tree.items()
    if kind == "plain":
        return held
    if kind in ("tensor", "complex"):
        return tensors[held] if kind == "tensor" else torch.view_as_complex(tensors[held])
    if kind == "call":
        return Call(**{name: _read(entry, tensors) for name, entry in held.items()})
    if kind == "mapping":
        return {key: _read(entry, tensors) for key, entry in held}
    entries = [_read(entry, tensors) for entry in held]
    return Pack(*entries) if kind == "pack" else tuple(entries) if kind == "tuple" else entries


def _free_sizes(state: State) -> None:
    """Tell a compiler which sizes are of the pictures and not of the model, so that it compiles once for all of them.

    It takes equal sizes for one, and a size of one for a constant: neither holds for pictures.
    """
    # Loaded already: a model cannot be built without it.
    from torch._dynamo.decorators import mark_unbacked, maybe_mark_dynamic

    images = None if state.packed else state.hidden.shape[0]

    def mark(held: Tensor) -> Tensor:
        if not hasattr(held, MARKED):
            setattr(held, MARKED, True)
            if held._base is not None:
                mark(held._base)
            for axis, size in enumerate(held.shape):
                if axis == 0 and size == images:
                    mark_unbacked(held, axis, shape_id="images", min=1)
                else:
                    maybe_mark_dynamic(held, axis)
        return held

    _mapped([state.hidden, state.streams, [[call.args, call.kwargs, call.pack] for call in state.calls]], mark)
