"""Whether a picture reaches a tower, and why not where none does."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from belvedere.errors import Unavailable

if TYPE_CHECKING:
    from torch import Tensor

    from belvedere.components.gathering import Reasons
    from belvedere.components.standard import Standard
    from belvedere.layouts import Patches

__all__ = ["NoVision", "as_patches", "no_images", "own_patches", "own_runs", "taken", "unseen"]


def as_patches(held: Tensor) -> Patches:
    """A tower's stream as ``[images, patches, vision_hidden]``: a packed row gets a leading 1, as a view."""
    return held.unsqueeze(0) if held.ndim == 2 else held


def own_patches(host: Standard) -> tuple[int, int | None]:
    """Where the running invoke's patches begin in a packed row, and how many there are; ``None`` for all of them."""
    batcher = host.interleaver.batcher
    share = batcher.share() if batcher.batching and hasattr(batcher, "share") else None
    return (0, None) if share is None else share.patches


def own_runs(host: Standard, bounds: Tensor) -> list[slice]:
    """The runs between bounds of a packed row that are the running invoke's, counted from its first patch."""
    start, length = own_patches(host)
    ends = pairwise(end - start for end in bounds.tolist())
    return [slice(first, last) for first, last in ends if first >= 0 and (length is None or last <= length)]


def taken(*blocks: int) -> str:
    """The streams that a wrapper takes of a tower, by the blocks that they leave; -1 is what enters the first."""
    return " and ".join(
        f"the stream of block {number}" if number >= 0 else "what enters block 0, which patch_embeddings become"
        for number in blocks
    )


def no_images(root: Any) -> str | None:
    """The one place that decides why no picture reaches the tower; ``None`` where one does."""
    family = root.family
    if family.wrapper is None:
        return f"{family.text} is a text model and has no tower; load a vision-language checkpoint"
    if family.tower is None:
        return (
            f"this {family.wrapper} config has no vision_config, so it is a text model and has no tower; "
            "load a vision-language checkpoint"
        )
    if root.text_only:
        return (
            f"task={root.task!r} loads {type(root._module).__name__}, the text model of {family.wrapper} alone; "
            "load with task='image-text-to-text'"
        )
    if family.facts.projector is None:
        return f"the entry of {family.wrapper} names no projector, so nothing of the tower reaches the text; add one"
    return None


def unseen(host: Standard) -> str | None:
    """`no_images` for a value on the tower or inside it."""
    return no_images(host.root)


class NoVision:
    """What ``model.vision`` is where the loaded module has no tower: it says why, at every value."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def no_images(self) -> str | None:
        """Why there is no tower."""
        return no_images(self._root)

    def support(self, *, notes: bool = False) -> Reasons:
        """No rows: there is no tower to support anything."""
        return {}

    def entries(self) -> list[Any]:
        """No places: no picture enters this model."""
        return []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unavailable(f"vision.{name}", str(self.no_images()))

    def __setattr__(self, name: str, written: Any) -> None:
        """There is nothing to write to, and the write would vanish."""
        if not name.startswith("_"):
            raise Unavailable(f"vision.{name}", str(self.no_images()))
        super().__setattr__(name, written)

    def __repr__(self) -> str:
        return f"NoVision({self.no_images()})"
