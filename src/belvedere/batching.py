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


class ImageBatcher(Batcher):
    """Assembles a trace's invokes into one forward, and scopes each worker to its rows, pictures and patches."""

    envoy: StandardizedTransformer

    def __init__(self, envoy: Any, kwargs: dict[str, Any] | None = None) -> None:
        super().__init__(envoy, kwargs)
        self.shares: dict[int, Share] = {}
        self.keywords: dict[str, Any] = {}
        self.totals = {"images": 0, "patches": 0, "tokens": 0}

    def assemble(self, fn: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The one call that runs every invoke, with the shares of each counted on the way."""
        # Under a scan tensors are fake, and counting pictures needs real ones.
        with unset_fake_temporarily():
            args, kwargs, pictures = inputs.assemble(self.envoy, self.invokes, fn)
        row = 0
        for (given, keywords), shown in zip(self.invokes, pictures, strict=True):
            counts = {"images": shown.count, "patches": sum(shown.patches), "tokens": shown.placeholders}
            runs = {axis: (self.totals[axis], length) for axis, length in counts.items()}
            self.shares[row] = Share(**runs, pictures=shown)
            self.totals = {axis: self.totals[axis] + length for axis, length in counts.items()}
            row += self.envoy._batch_size(*given, **keywords)
        self.keywords = {**kwargs, **self.extra_kwargs}
        return args, self.keywords

    def share(self) -> Share | None:
        """What belongs to the invoke whose block is running; ``None`` for an edit, which sees the whole batch."""
        group = getcurrent().mediator().batch_group
        return None if group is None else self.shares.get(group[0])

    def pictures(self) -> list[Pictures]:
        """The pictures that the running block sees: its invoke's, or all of them."""
        share = self.share()
        return [shown.pictures for shown in self.shares.values()] if share is None else [share.pictures]

    def rows(self) -> int:
        """How many rows of the batch the running block sees."""
        group = getcurrent().mediator().batch_group
        return self.total if group is None or not self.batching else int(group[1])

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
        return apply(value, lambda tensor: self._cut(tensor, group), torch.Tensor)

    def _widen_tensor(self, full: torch.Tensor, group: Any, edited: torch.Tensor) -> torch.Tensor:
        run = self._run(full, group) if self._is_image_side() else None
        if run is None and (self._is_scatter() or not self._is_image_side()):
            rows: torch.Tensor = super()._widen_tensor(full, group, edited)
            return rows
        if run is None:
            return edited
        axis, start, length = run
        if _is_square_mask(full):
            whole = full.clone()
            whole[:, :, start : start + length, start : start + length] = edited
            return whole
        after = full.shape[axis] - start - length
        return torch.cat([full.narrow(axis, 0, start), edited, full.narrow(axis, start + length, after)], dim=axis)

    def _cut(self, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        run = self._run(tensor, group)
        if run is None:
            return super()._narrow_tensor(tensor, group) if self._is_scatter() else tensor
        axis, start, length = run
        view = tensor.narrow(axis, start, length)
        if _is_square_mask(tensor):
            view = view.narrow(3, start, length)
        # nnsight sends a gradient that is asked for on a cut back to the whole tensor, which is the one in the graph.
        view._nnsight_batch = True  # type: ignore[attr-defined]
        return view

    def _run(self, tensor: torch.Tensor, group: Any) -> tuple[int, int, int] | None:
        """The ``(axis, start, length)`` of a tensor that is an invoke's own; ``None`` where no axis is of images."""
        share = self.shares[group[0]]
        if not tensor.is_floating_point():
            grid = tensor.ndim == 2 and tensor.shape == (self.totals["images"], 3)
            return (0, *share.images) if grid else None
        for axis, names in _candidates(tensor):
            for name in names:
                if tensor.shape[axis] == self.totals[name]:
                    return (axis, *getattr(share, name))
        return None

    def _is_image_side(self) -> bool:
        return self.envoy.is_image_side(self.envoy.interleaver.location)

    def _is_scatter(self) -> bool:
        return ".source." in self.envoy.interleaver.location


def _is_square_mask(tensor: torch.Tensor) -> bool:
    """Whether this is a packed row's attention mask, ``[1, 1, patches, patches]``."""
    return tensor.ndim == 4 and tensor.shape[:2] == (1, 1) and tensor.shape[2] == tensor.shape[3]


def _candidates(tensor: torch.Tensor) -> list[tuple[int, tuple[str, ...]]]:
    """Which axes may be of images, patches or image tokens, likeliest first.

    A leading 1 is a packed row: its patches are on axis 2 of queries, keys and values, and on axis 1 of a stream.
    """
    if tensor.ndim > 2 and tensor.shape[0] == 1:
        return (
            [(0, ("images",)), (2, ("patches",)), (1, ("patches",))]
            if tensor.ndim == 4
            else [(0, ("images",)), (1, ("patches",))]
        )
    return [(0, ("patches", "tokens", "images"))]
