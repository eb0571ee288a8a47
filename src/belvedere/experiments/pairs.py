"""Two inputs laid side by side, so that a position of one is the same position of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.runs import Side, encoded, kept
from belvedere.geometry import Cells
from belvedere.locating import locate

if TYPE_CHECKING:
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Groups", "Pair", "image_tokens"]

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The clean and the corrupt input."""

    clean: Side
    corrupt: Side

    @classmethod
    def align(cls, model: StandardizedTransformer, clean: Mapping[str, Any], corrupt: Mapping[str, Any]) -> Pair:
        """Encode both inputs and check that their positions correspond.

        Args:
            model: The model.
            clean: What `trace` takes by keyword: an encoding, or ``{"text": prompt, "images": [picture]}``.
            corrupt: The same, of equal length, with pictures of equal size.

        Raises:
            InputError: One is no input of one prompt, or they cannot be laid side by side.
        """
        pair = cls(clean=encoded(model, clean, "clean"), corrupt=encoded(model, corrupt, "corrupt"))
        if pair.clean.pictures != pair.corrupt.pictures:
            raise InputError(
                f"the clean pictures are {_grids(pair.clean)} patches and the corrupt ones {_grids(pair.corrupt)}, so "
                "their positions do not correspond; resize them to one size"
            )
        if pair.clean.length != pair.corrupt.length:
            raise InputError(
                f"the clean prompt has {pair.clean.length} tokens and the corrupt one {pair.corrupt.length}, so their "
                "positions do not correspond; word them so that they have as many"
            )
        if not torch.equal(image_tokens(model, pair.clean), image_tokens(model, pair.corrupt)):
            raise InputError(
                "the image tokens stand at different positions in the clean and the corrupt prompt; use one prompt, or "
                "word both so that the pictures come at the same place"
            )
        return pair

    def length(self, model: StandardizedTransformer, site: Site) -> int:
        """How many rows of a site one prompt has: its tokens, or the tower's rows for all its pictures."""
        if not site.is_tower:
            return self.corrupt.length
        shown = self.corrupt.pictures
        if shown.videos or not shown.count:
            what = "videos" if shown.videos else "no pictures"
            raise InputError(f"{site.path} is patched picture by picture, and the inputs show {what}")
        return len(self._rows(model))

    def usual(self, model: StandardizedTransformer, site: Site) -> list[int]:
        """The positions that are swept by default: patches, image tokens, or every token where no picture is shown."""
        if not site.is_tower:
            found = image_tokens(model, self.corrupt)
            if site.is_features and not len(found):
                raise InputError(f"{site.path} is written over image tokens, and the inputs show no pictures")
            return found.tolist() if len(found) else kept(self.corrupt.encoding).nonzero().flatten().tolist()
        return self._rows(model).of_kind("patch").nonzero().flatten().tolist()

    def _rows(self, model: StandardizedTransformer) -> Cells:
        """What each row of the tower is."""
        return locate(model.vision, self.corrupt.encoding, self.corrupt.pictures).patches


def image_tokens(model: StandardizedTransformer, side: Side) -> Tensor:
    """The positions of the image tokens."""
    token = model.placeholder("image")
    ids = side.encoding["input_ids"][0]
    return (ids == token).nonzero().flatten().cpu() if token is not None else torch.empty(0, dtype=torch.long)


def _grids(side: Side) -> str:
    return ", ".join(" x ".join(str(length) for length in grid[-2:]) for grid in side.pictures.grids) or "no"
