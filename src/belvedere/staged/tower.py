"""A tower in three steps: what enters its blocks, any run of them, and what the wrapper makes of what leaves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from greenlet import getcurrent
from torch import Tensor

from belvedere.errors import InputError, Unavailable
from belvedere.staged.answers import answered, nan_like, standing_in
from belvedere.staged.inputs import Source
from belvedere.staged.segments import BOUNDS, Pack, bare, packed, splits
from belvedere.staged.state import Call, State, apart

__all__ = ["Parts", "Staged"]


class _Reached(Exception):  # noqa: N818 - it is no error, it ends a forward that has come as far as is wanted
    """A forward has come to the block that was waited for."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The modules of a checkpoint that a staged tower runs, and what is known of them.

    Args:
        blocks: The tower's blocks, in the order of the forward.
        source: What makes features of pixels.
        projector: The last module before the text.
        patch_embed: The patch embedding.
        embeddings: The text's embedding, whose type the features have.
        packed: Whether every picture's patches are in one row.
        reads: The blocks whose streams the wrapper reads, by what it is called with.
    """

    blocks: Sequence[torch.nn.Module]
    source: Source
    projector: torch.nn.Module
    patch_embed: torch.nn.Module
    embeddings: torch.nn.Module
    packed: bool
    reads: Callable[[Mapping[str, Any]], tuple[int, ...]]


class Staged:
    """A vision tower run by hand, on the checkpoint's own modules, device and type.

    ::

        staged = model.vision.staged
        state = staged.encode(staged.embed(**encoding), stop=12)    # blocks 0 to 11
        edited = state.replace(hidden=state.hidden * 0.5)
        features = staged.merge(staged.encode(edited))              # blocks 12 to the last, and what follows

    ``forward`` composes the three, and equals the model's own ``image_features`` to the last bit. Nothing here runs
    inside a trace.

    Args:
        parts: What it runs.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.blocks = list(parts.blocks)
        #: Whether the blocks split a packed row at bounds that they are called with.
        self.splits = splits(self.blocks[0])
        self._in_tuple: bool | None = None
        self._made_of: list[Any] = []
        self._renew()

    def __repr__(self) -> str:
        return f"Staged({len(self.blocks)} blocks of {type(self.blocks[0]).__name__}: embed, encode, merge)"

    def embed(self, pixels: Any = None, grid: Any = None, **encoding: Any) -> State:
        """What enters the first block, and all that the blocks are called with.

        The model's own forward runs up to its blocks; what it calls each block with is noted. Everything that depends
        on the pictures' sizes is made here, so that `encode` runs without a look at them.

        Args:
            pixels: Pixel values or pre-cut patches as the processor makes them; whole pixels ``[images, 3, height,
                width]``, also where the tower takes patches in one row; an encoding, of pictures or of a video; or a
                list of pictures.
            grid: Beside pixel values: what an encoding says of the pictures' sizes (``image_grid_thw``,
                ``image_sizes``, ``spatial_shapes``, ``image_position_ids``, ``aspect_ratio_ids``).
            **encoding: An encoding's fields; those of the text are left out.

        Returns:
            The state before block 0.

        Raises:
            InputError: Nothing can be made of it; the message says what to pass.
        """
        self._refuse_here()
        self._renew()
        parts = self.parts
        given = parts.source.keywords(pixels, grid, encoding)
        source = {name: self._placed(held) for name, held in given.items()}
        noted, shapes = _Notes(self), list[Any]()
        watch = parts.patch_embed.register_forward_hook(lambda _module, _args, output: shapes.append(output))
        try:
            with suppress(_Reached), standing_in(self.blocks, noted):
                parts.source(source)
        finally:
            watch.remove()
        if len(noted.calls) < len(self.blocks):
            raise Unavailable(
                "vision.staged",
                f"this tower ran {len(noted.calls)} of its {len(self.blocks)} blocks; read its values inside a trace",
            )
        row = noted.entering.ndim == 2
        hidden, calls = apart((noted.entering[None] if row else noted.entering, tuple(noted.calls)))
        once = len(shapes) == 1 and isinstance(shapes[0], Tensor)
        return State(
            hidden=hidden,
            block=0,
            calls=calls,
            source=source,
            reads=parts.reads(source),
            packed=parts.packed,
            row=row,
            in_tuple=noted.in_tuple,
            patches=tuple(shapes[0].shape) if once else None,
        )

    def encode(self, state: State, start: int | None = None, stop: int | None = None) -> State:
        """Run blocks on a state's stream.

        Compiles as it is, once for all pictures: ``torch.compile(staged.encode, fullgraph=True, dynamic=True)``. Where
        a tower's attention runs once per picture, frame or window it then runs in one call, so the last bits differ;
        and hooks on the blocks are not run.

        Args:
            state: A state; it is left as it is.
            start: The first block to run; by default the one that comes next. With another one blocks are left out, or
                run once more.
            stop: The block before which to stop; by default all the others are run.

        Returns:
            The state before block ``stop``.

        Raises:
            InputError: There are no such blocks.
        """
        compiling = torch.compiler.is_compiling()
        if not compiling:
            self._refuse_here()
            self._refuse_other(state)
        first = state.block if start is None else start
        last = len(self.blocks) if stop is None else stop
        if not 0 <= first <= last <= len(self.blocks):
            raise InputError(f"blocks {first} to {last} are not a run of 0 to {len(self.blocks)}; choose start <= stop")
        blocks = self._bare if compiling else self.blocks
        streams, hidden = dict(state.streams), state.native(state.hidden)
        for number in range(first, last):
            if number - 1 in state.reads:
                streams[number - 1] = state.standard(hidden)
            call = state.calls[number]
            if call.seam:
                hidden = self._over_seam(state, number, hidden)
            if compiling and call.pack is not None:
                call = Call(call.args, packed(call.kwargs, call.pack), call.keyword)
            hidden = call(blocks[number], hidden)
        return replace(state, hidden=state.standard(hidden), block=last, streams=streams)

    def merge(self, state: State) -> Tensor:
        """The image features ``[image_tokens, hidden]``: exactly what ``vision.image_features`` is, flat.

        The model's own method runs with its blocks answered by the state's streams, so choosing blocks, dropping CLS,
        pooling, merging, projecting and newlines are its own. The patch embedding does not run again.

        Args:
            state: A state that has passed every block that the wrapper reads.

        Raises:
            InputError: It has not.
        """
        outcome = self._outcome(state)
        pooled = getattr(outcome, "pooler_output", None)
        if pooled is None:
            # This wrapper's method ends with the tower.
            pooled = self.parts.projector(outcome.last_hidden_state.flatten(0, -2))
        parts = [pooled] if isinstance(pooled, Tensor) else pooled
        flat = torch.cat([one.flatten(0, -2) for one in parts])
        return flat.to(next(self.parts.embeddings.parameters()).dtype)

    def deepstack(self, state: State) -> tuple[Tensor, ...]:
        """The features that are added to the text's stream behind its first blocks, ``[image_tokens, hidden]`` each.

        What ``layers[i].deepstack_output`` is, in order; empty where the model has none.

        Args:
            state: As for `merge`.

        Raises:
            InputError: It has not passed every block that the wrapper reads.
        """
        added = getattr(self._outcome(state), "deepstack_features", None) or ()
        return tuple(one if isinstance(one, Tensor) else torch.cat(list(one)) for one in added)

    def forward(self, pixels: Any = None, grid: Any = None, **encoding: Any) -> Tensor:
        """`embed`, `encode` over all blocks and `merge`; the arguments are those of `embed`."""
        return self.merge(self.encode(self.embed(pixels, grid, **encoding)))

    @contextmanager
    def answered(self, state: State) -> Iterator[None]:
        """While it holds, the tower's blocks return a state's streams and do not run.

        Whatever runs the tower meanwhile, the whole model for one, runs on these streams. The pictures that it is shown
        must be as many and as large as the state's.

        Args:
            state: As for `merge`.

        Raises:
            InputError: It has not passed every block that the wrapper reads; or, from within, other pictures are shown.
        """
        shape = state.native(state.hidden).shape

        def check(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            entering = args[0] if args else next(iter(kwargs.values()))
            if entering.shape != shape:
                raise InputError(
                    f"the tower is shown pictures whose stream is {list(entering.shape)}, and the state's is "
                    f"{list(shape)}; show it the pictures that the state was made of, or others of their sizes"
                )

        with answered(self.blocks, self._outputs(state)):
            watch = self.blocks[0].register_forward_pre_hook(check, with_kwargs=True)
            try:
                yield
            finally:
                watch.remove()

    def _outputs(self, state: State) -> list[Any]:
        """What each block returns of a state; ``None`` where it is not kept."""
        self._refuse_other(state)
        kept = state.kept
        missing = [number for number in state.reads if number not in kept]
        if missing:
            raise InputError(
                f"the wrapper reads the stream of block {missing[0]}, which this state has not passed; "
                "run `encode` to the end first"
            )
        return [state.returned(kept[number]) if number in kept else None for number in range(len(self.blocks))]

    def _outcome(self, state: State) -> Any:
        """What the wrapper's method returns where its blocks are answered from a state."""
        self._refuse_here()
        # A tower that runs more than once in a forward has a stream for each run, and a state has one.
        with answered(self.blocks, self._outputs(state), most=1), self._without_patches(state):
            return self.parts.source(state.source)

    def _over_seam(self, state: State, number: int, hidden: Tensor) -> Tensor:
        """What enters a block of the stream that left the one before, by the tower's own forward between them.

        Raises:
            InputError: A compiler is at work.
        """
        if torch.compiler.is_compiling():
            raise InputError(
                f"the tower makes something of the stream before block {number}, which does not compile; "
                "compile the blocks on each side, and run the one behind it uncompiled"
            )
        known = {**state.streams, number - 1: state.standard(hidden)}
        entering: list[Tensor] = []

        def answer(passed: int, _forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            stream = args[0] if args else next(iter(kwargs.values()))
            if passed == number:
                entering.append(stream)
                raise _Reached
            return state.returned(known[passed] if passed in known else state.standard(nan_like(stream)))

        with suppress(_Reached), standing_in(self.blocks, answer), self._without_patches(state):
            self.parts.source(state.source)
        return entering[0]

    @contextmanager
    def _without_patches(self, state: State) -> Iterator[None]:
        """The patch embedding answered by nothing of its shape, where all that is made of it is answered too."""
        if state.patches is None or -1 in state.reads:
            yield
            return
        kind = next(self.parts.patch_embed.parameters()).dtype
        nothing = state.hidden.new_full((), torch.nan, dtype=kind).expand(state.patches)
        with answered([self.parts.patch_embed], [nothing]):
            yield

    def in_tuple(self, run: Callable[[], Any]) -> bool:
        """Whether the blocks return their stream in a tuple, seen once by running one."""
        if self._in_tuple is None:
            with torch.no_grad():
                self._in_tuple = isinstance(run(), tuple)
        return self._in_tuple

    def _renew(self) -> None:
        """Make the blocks for a compiler, anew where a part of them was replaced, or put into another mode."""
        now = [(part, part.training) for block in self.blocks for part in block.modules()]
        if now != self._made_of:
            self._bare, self._made_of = bare(self.blocks, in_one_call=self.splits), now

    def _placed(self, held: Any) -> Any:
        """A tensor on the tower's device."""
        if not isinstance(held, Tensor):
            return held
        device = next(self.parts.patch_embed.parameters()).device
        # An offloaded module is moved to its inputs by its own hooks.
        return held if device.type == "meta" else held.to(device)

    def _refuse_other(self, state: State) -> None:
        if len(state.calls) != len(self.blocks):
            raise InputError(
                f"the state is of a tower of {len(state.calls)} blocks, and this one has {len(self.blocks)}; "
                "pass a state that this tower's `embed` made"
            )

    def _refuse_here(self) -> None:
        if getattr(getcurrent(), "mediator", None) is not None:
            raise InputError(
                "a staged tower runs the model itself, which cannot be done inside a trace; call it before "
                "`with model.trace(...):` or behind it"
            )


class _Notes:
    """Answers for blocks by the stream that entered them, notes what each is called with, and stops at the last."""

    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        self.calls: list[Call] = []
        self.entering: Tensor
        self.in_tuple = False
        self._passed: Any = None
        self._packs: dict[int, Pack] = {}

    def __call__(self, number: int, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if number != len(self.calls):
            raise Unavailable(
                "vision.staged",
                f"this tower does not run its blocks once each and in order, block {number} came at place "
                f"{len(self.calls)}; read its values inside a trace",
            )
        stream, call = self._split(args, kwargs)
        if not self.calls:
            self.entering = stream
            self.in_tuple = self.staged.in_tuple(lambda: forward(*args, **kwargs))
        elif stream is not self._passed:
            call = replace(call, seam=True)
        self.calls.append(next((known for known in self.calls if _are_same(known, call)), call))
        if number == len(self.staged.blocks) - 1:
            raise _Reached
        self._passed = stream
        return (stream,) if self.in_tuple else stream

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Call]:
        """The stream, and all else that a block is called with."""
        if args:
            return args[0], Call(args[1:], kwargs, pack=self._pack(kwargs))
        keyword = next(iter(kwargs))
        rest = {name: held for name, held in kwargs.items() if name != keyword}
        return kwargs[keyword], Call((), rest, keyword, pack=self._pack(kwargs))

    def _pack(self, kwargs: dict[str, Any]) -> Pack | None:
        bounds = kwargs.get(BOUNDS)
        if bounds is None or not self.staged.splits:
            return None
        if id(bounds) not in self._packs:
            self._packs[id(bounds)] = Pack.of(bounds)
        return self._packs[id(bounds)]


def _are_same(one: Call, other: Call) -> bool:
    """Whether two calls pass the very same objects."""
    passed = [[*call.args, *call.kwargs.values(), call.pack, call.keyword, call.seam] for call in (one, other)]
    alike = one.kwargs.keys() == other.kwargs.keys() and len(passed[0]) == len(passed[1])
    return alike and all(ours is theirs for ours, theirs in zip(*passed, strict=True))
