"""What a patching sweep found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from belvedere.experiments.maps import Cell, MapResult, named

__all__ = ["Cell", "PatchResult", "named"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PatchResult(MapResult):
    """The effect of each patch: 0 where the corrupt run stays as it is, 1 where the clean one is restored.

    Clean and corrupt are the two runs as they were given; see `patch` for the other direction.

    Args:
        effects: ``[layer, position]``; below 0 or above 1 where a patch overshoots.
        raw: ``[layer, position]``, the metric itself.
        layers: The block of each row; -1 for the image features, which are of no block.
        positions: The positions that each column patched together.
        heads: The heads that each column patched together; empty where the value has none.
        names: What each column is called, such as ``"head 3 at 12"`` or ``"image"``; empty where its positions say it.
        clean: The metric of the clean run.
        corrupt: The metric of the corrupt run.
        value: The standard path of what was patched.
        settings: What else made it: the model, the metric, the cells per forward, and how the cells were run.
    """

    KIND: ClassVar[str] = "patching result"
    HEADER: ClassVar[str] = "belvedere.patch"
    EXPERIMENT: ClassVar[str] = "patching"
    UNIT: ClassVar[str] = "restored: 0 corrupt, 1 clean"

    raw: Tensor
    clean: float
    corrupt: float

    def __repr__(self) -> str:
        return self._shown(f"clean {self.clean:.4g}, corrupt {self.corrupt:.4g}")
