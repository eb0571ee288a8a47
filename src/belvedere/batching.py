"""Several image-carrying invokes in one forward, each seeing only its own pictures, patches and rows.

nnsight splits a batch by rows: a tensor whose first axis is as long as the batch is cut there. Inside a tower no axis
is the batch. There a picture, a patch and an image token each have an axis of their own, and an invoke owns a run of
each. `ImageBatcher` counts them as it puts the forward together, and cuts by the location that is being served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from greenlet import getcurrent
from nnsight.intervention.batching import Batcher
from nnsight.util import apply
from torch._subclasses.fake_tensor import unset_fake_temporarily

from belvedere import inputs
from belvedere.edits import SHARED
from belvedere.errors import InputError, WriteError
from belvedere.geometry import PatchLayout
from belvedere.gradients import reachable
from belvedere.locating import locate, locate_videos
from belvedere.pictures import Pictures

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["ImageBatcher"]


@dataclass(frozen=True, kw_only=True)
class Share:
    """The runs of each image axis that belong to one invoke, as ``(start, length)``."""

    images: tuple[int, int]
    patches: tuple[int, int]
    tokens: tuple[int, int]
    pictures: Pictures
    invoke: inputs.Invoke


class ImageBatcher(Batcher):
    """Assembles a trace's invokes into one forward, and scopes each worker to its rows, pictures and patches."""

    envoy: StandardizedTransformer

    def __init__(self, envoy: Any, kwargs: dict[str, Any] | None = None) -> None:
        super().__init__(envoy, kwargs)
        self.shares: dict[int, Share] = {}
        self.keywords: dict[str, Any] = {}
        self.totals = {"images": 0, "patches": 0, "tokens": 0}
        self.whole: dict[str, list[torch.Tensor]] = {}

    def assemble(self, fn: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The one call that runs every invoke, with the shares of each counted on the way."""
        # Under a scan tensors are fake, and counting pictures needs real ones.
        with unset_fake_temporarily():
            args, kwargs, pictures, encoded = inputs.assemble(self.envoy, self.invokes, fn)
            self._refuse_beams()
        row = 0
        for (given, keywords), shown, own in zip(self.invokes, pictures, encoded, strict=True):
            counts = {"images": shown.images, "patches": sum(shown.patches), "tokens": shown.placeholders}
            runs = {axis: (self.totals[axis], length) for axis, length in counts.items()}
            self.shares[row] = Share(**runs, pictures=shown, invoke=own)
            self.totals = {axis: self.totals[axis] + length for axis, length in counts.items()}
            row += self.envoy._batch_size(*given, **keywords)
        self.keywords = {**kwargs, **self.extra_kwargs}
        return args, self.keywords

    def _refuse_beams(self) -> None:
        several = [name for name in ("num_beams", "num_return_sequences") if self.extra_kwargs.get(name, 1) > 1]
        if self.batching and several:
            raise InputError(f"{several[0]} multiplies the rows of a batch; generate from one invoke at a time")

    def share(self) -> Share | None:
        """What belongs to the invoke whose block is running; ``None`` for an edit, which sees the whole batch."""
        group = getcurrent().mediator().batch_group
        return None if group is None else self.shares.get(group[0])

    def pictures(self) -> list[Pictures]:
        """The pictures that the running block sees: its invoke's, or all of them."""
        share = self.share()
        return [shown.pictures for shown in self.shares.values()] if share is None else [share.pictures]

    def layout(self, of: str = "pictures") -> PatchLayout:
        """Where the patches and image tokens of the running block's invoke are, in the rows that it is served.

        Args:
            of: Its ``"pictures"`` or its ``"videos"``.

        Raises:
            InputError: It shows none, or is an edit, which sees every invoke.
        """
        share = self.share() or (next(iter(self.shares.values())) if len(self.shares) == 1 else None)
        if share is None:
            raise InputError("several inputs run here, each with a layout of its own; read it inside an invoke")
        encoding = {**share.invoke.encoding, **share.invoke.forward}
        for key in inputs.PIXELS & encoding.keys() if self.batching else ():
            # Beside others a picture may be padded to the largest of all.
            encoding[key] = inputs.filled(encoding[key], self.keywords[key].shape[1:])
        if encoding.get("input_ids") is not None:
            encoding["input_ids"] = self.rows("input_ids")
        if of == "videos":
            return locate_videos(self.envoy.vision, encoding)
        return locate(self.envoy.vision, encoding, self.envoy.pictures(encoding), share.invoke.sizes)

    def is_shared(self, location: str, held: Any) -> bool:
        """Whether what an invoke is served at a location is one tensor for all invokes, so that none may edit it."""
        return any(one is held for one in self.whole.get(location, ()))

    def rows(self, name: str) -> torch.Tensor | None:
        """The running invoke's own rows of an input that has a row for each prompt; ``None`` where it is not given."""
        held, group = self.keywords.get(name), getcurrent().mediator().batch_group
        return held if held is None or group is None or not self.batching else held[group[0] : group[0] + group[1]]

    def narrow_at(self, location: str, value: Any, group: Any) -> Any:
        """`narrow` for a value that was kept when ``location`` was served."""
        interleaver = self.envoy.interleaver
        outer, interleaver.location = interleaver.location, location
        try:
            return self.narrow(value, group)
        finally:
            interleaver.location = outer

    def narrow(self, value: Any, group: Any) -> Any:
        """An invoke's own part of what a location serves."""
        if not self.batching or group is None or not self._is_image_side():
            return super().narrow(value, group)
        self.whole[self.envoy.interleaver.location] = []
        return apply(value, lambda tensor: self._cut(tensor, group), torch.Tensor)

    def _widen_tensor(self, full: torch.Tensor, group: Any, edited: torch.Tensor) -> torch.Tensor:
        if not full.ndim and _same(edited, full):
            return edited
        if not full.ndim:
            raise WriteError("this number is of all invokes of the trace; write it in a trace of its own")
        run = self._run(full, group) if self._is_image_side() else None
        length = 0 if self._is_image_side() else self._flat_length(full)
        if length:
            start, stop = group[0] * length, (group[0] + group[1]) * length
            return torch.cat([full[:start], edited, full[stop:]])
        if run is None and (not self._is_image_side() or self._is_scatter()):
            rows: torch.Tensor = super()._widen_tensor(full, group, edited)
            return rows
        if run is None and _is_real(full) and not _same(edited, full):
            raise WriteError(SHARED)
        if run is None:
            return edited
        axis, start, length = run
        if axis == 2 and self._is_square_mask(full):
            whole = full.clone()
            whole[:, :, start : start + length, start : start + length] = edited
            return whole
        after = full.shape[axis] - start - length
        return torch.cat([full.narrow(axis, 0, start), edited, full.narrow(axis, start + length, after)], dim=axis)

    def _cut(self, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        if not tensor.ndim:
            return tensor
        run = self._run(tensor, group)
        if run is None and self._is_scatter():
            rows: torch.Tensor = super()._narrow_tensor(tensor, group)
            return rows
        if run is None:
            if _is_real(tensor):
                self.whole[self.envoy.interleaver.location].append(tensor)
            return tensor
        axis, start, length = run
        view = tensor.narrow(axis, start, length)
        return reachable(view.narrow(3, start, length) if axis == 2 and self._is_square_mask(tensor) else view)

    def _narrow_tensor(self, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        # A loss, say, is of the whole batch.
        if not tensor.ndim:
            return tensor
        length = self._flat_length(tensor)
        if length:
            start, rows = group
            return reachable(tensor[start * length : (start + rows) * length])
        cut: torch.Tensor = super()._narrow_tensor(tensor, group)
        return cut if cut is tensor else reachable(cut)

    def _flat_length(self, tensor: torch.Tensor) -> int:
        """The positions of each row in a tensor of flat tokens ``[batch * seq, ...]``; 0 for any other tensor."""
        ids = self.keywords.get("input_ids")
        length = 0 if ids is None else int(ids.shape[1])
        return length if length > 1 and tensor.ndim and tensor.shape[0] == self.total * length else 0

    def widen(self, full: Any, group: Any, edited: Any) -> Any:
        """The whole batch's value with an invoke's own part in its place."""
        if full is None and self.batching and group is not None and isinstance(edited, torch.Tensor):
            # A recurrent state that is not there yet is zero in every row.
            full = edited.new_zeros(self.total, *edited.shape[1:])
        return super().widen(full, group, edited)

    def _run(self, tensor: torch.Tensor, group: Any) -> tuple[int, int, int] | None:
        """The ``(axis, start, length)`` of a tensor that is an invoke's own; ``None`` where no axis is of images."""
        if ".source.zip_" in self.envoy.interleaver.location:
            # Segments of a packed row, which the attention itself deals out to the invokes.
            return None
        if self._by_prompt():
            # Prompts come first, each with as many pictures, tiles or heads' rows.
            each, rest = divmod(tensor.shape[0], self.total) if tensor.ndim else (0, 1)
            return None if rest else (0, group[0] * each, group[1] * each)
        share = self.shares[group[0]]
        if not tensor.is_floating_point():
            # Each picture's grid, or the mask of its padding.
            count = self.totals["images"]
            each = tensor.shape == (count, 3) or (tensor.ndim == 4 and tensor.shape[0] == count)
            return (0, *share.images) if each else None
        for axis, names in _candidates(tensor, self.envoy.interleaver.location):
            for name in names:
                if tensor.shape[axis] == self.totals[name]:
                    return (axis, *getattr(share, name))
        return self._slots(tensor, share)

    def _slots(self, tensor: torch.Tensor, share: Share) -> tuple[int, int, int] | None:
        """The run of an invoke in a projector's row of slots, ``[1, 1, images * slots, width]``, as many for each."""
        images = self.totals["images"]
        if tensor.ndim != 4 or tensor.shape[:2] != (1, 1) or not images or tensor.shape[2] % images:
            return None
        if not self.envoy.interleaver.location.startswith(f"{self.envoy.projector.path}."):
            return None
        slots = tensor.shape[2] // images
        start, length = share.images
        return 2, start * slots, length * slots

    def _is_square_mask(self, tensor: torch.Tensor) -> bool:
        """Whether this is a packed row's attention mask, ``[1, 1, patches, patches]``."""
        return tensor.ndim == 4 and tensor.shape == (1, 1, self.totals["patches"], self.totals["patches"])

    def _is_image_side(self) -> bool:
        return self.envoy.is_image_side(self.envoy.interleaver.location)

    def _by_prompt(self) -> bool:
        family = self.envoy.family
        return family.wrapper is not None and family.facts.by_prompt

    def _is_scatter(self) -> bool:
        """Whether this is an operation of the text's side, which has arguments of the batch's rows too."""
        location = self.envoy.interleaver.location
        return ".source." in location and not location.startswith(f"{self.envoy.vision.path}.")


def _is_real(tensor: torch.Tensor) -> bool:
    """Whether a tensor is of numbers, and no index or mask."""
    return tensor.is_floating_point() or tensor.is_complex()


def _same(edited: torch.Tensor, full: torch.Tensor) -> bool:
    """Whether an invoke wrote what was there: the tensor itself, or a copy that it may edit."""
    return edited is full or (edited.shape == full.shape and torch.equal(edited, full))


def _candidates(tensor: torch.Tensor, location: str) -> list[tuple[int, tuple[str, ...]]]:
    """Which axes may be of images, patches or image tokens, likeliest first.

    A leading 1 is a packed row: its patches are on axis 1 of a stream and of what an attention interface returns, and
    on axis 2 of queries, keys and values.
    """
    if tensor.ndim < 3 or tensor.shape[0] != 1:
        return [(0, ("patches", "tokens", "images"))]
    returned = ".source.attention_interface_" in location and location.endswith(".output")
    return [(0, ("images",)), (1 if tensor.ndim == 3 or returned else 2, ("patches",))]
