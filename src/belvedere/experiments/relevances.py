"""What was found to be relevant to each token of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.saved import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

__all__ = ["RelevanceResult"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RelevanceResult(Result):
    """How relevant each position is to each token of the answer.

    Args:
        relevance: ``[token, position]``; has a sign where the method is the gradient's.
        ids: ``[position]``, the prompt's tokens, and those of the answer that later ones may look at.
        boxes: ``[position, 4]`` in the original picture's pixels; NaN where that is not known, or for text.
        images: ``[position]``, the picture's number; -1 for text.
        links: ``[pairs, 2]``, an image token's position and a row of the tower that it is made of.
        patch_boxes: ``[rows, 4]``, where the tower's rows are in the original picture.
        patch_images: ``[rows]``, the picture's number.
        tokens: The answer.
        words: How each token is written, by its number.
        method: How relevance was found.
        besides: Values by which the picture enters the text beside the stream that enters the first block, and of which
            a gradient there does not know.
        settings: What else made it.
    """

    KIND: ClassVar[str] = "relevance"
    HEADER: ClassVar[str] = "belvedere.relevance"
    HEADINGS: ClassVar[tuple[str, ...]] = ("token", "on the pictures", "most relevant", "at position")
    axes: ClassVar[tuple[str, str]] = ("token", "position")

    relevance: Tensor
    ids: Tensor
    boxes: Tensor
    images: Tensor
    links: Tensor
    patch_boxes: Tensor
    patch_images: Tensor
    tokens: tuple[int, ...]
    words: Mapping[str, str]
    method: str
    besides: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def share(self) -> Tensor:
        """How much of all relevance, whatever its sign, is on image tokens: ``[token]``, 0 to 1."""
        size = self.relevance.abs()
        return size[:, self.images >= 0].sum(1) / size.sum(1).clamp_min(torch.finfo(size.dtype).tiny)

    def on_tokens(self, image: int | None = None) -> Tensor:
        """The relevance of the image tokens alone, in the order of the prompt: ``[token, image_tokens]``.

        Args:
            image: Of this picture only.
        """
        return self.relevance[:, self.images >= 0 if image is None else self.images.eq(image)]

    def on_patches(self) -> Tensor:
        """The relevance of the tower's rows, ``[token, rows]``: an image token's is shared by its patches.

        A row that goes into no image token, such as CLS, has none.
        """
        places, rows = self.links.unbind(1)
        shared = torch.bincount(places, minlength=self.relevance.shape[1])[places]
        found = torch.zeros(len(self.tokens), len(self.patch_boxes))
        return found.index_add(1, rows, self.relevance[:, places] / shared)

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"relevance by {self.method}"

    def lines(self) -> list[tuple[str, ...]]:
        """One line per token of the answer."""
        best = self.relevance.argmax(1).tolist()
        words = [self.words[str(token)] for token in self.tokens]
        return [
            (repr(word), f"{share:.0%}", self._place(place), str(place))
            for word, share, place in zip(words, self.share().tolist(), best, strict=True)
        ]

    def plot(self) -> Figure:
        """A map, a row per token of the answer and a column per position; `overlay` lays it over the picture."""
        from belvedere import plot

        rows = [self.words[str(token)] for token in self.tokens]
        columns = range(self.relevance.shape[1])
        values = _scaled(self.relevance)
        return plot.heat(values, rows=rows, columns=columns, title=self.title, unit="of the largest", down="token")

    def overlay(
        self,
        picture: Image,
        *,
        image: int = 0,
        patches: bool = False,
        outline: tuple[float, float, float, float] | None = None,
    ) -> Figure:
        """The relevance over the picture, one panel per token of the answer.

        Args:
            picture: The picture, before any processing.
            image: Its number in the prompt.
            patches: Draw the tower's patches rather than the image tokens.
            outline: A box to draw a line around.

        Raises:
            InputError: Where the picture's tokens or patches lie in it is not known.
        """
        from belvedere import plot

        values, boxes, images = self.relevance, self.boxes, self.images
        if patches:
            values, boxes, images = self.on_patches(), self.patch_boxes, self.patch_images
        chosen = images.eq(image) & ~boxes.isnan().any(-1)
        if not bool(chosen.any()):
            raise InputError(f"nothing has a known box in picture {image}; use `table()` or `plot()`")
        # A rollout is of no score: it knows no answer.
        what = "" if self.method == "rollout" else f"of the {self.settings.get('metric', 'score')}, "
        return plot.strips(
            _scaled(values[:, chosen]),
            boxes[chosen],
            picture,
            titles=[repr(self.words[str(token)]) for token in self.tokens],
            heading=self.title,
            unit=f"{what}the largest is 1",
            outline=outline,
        )

    def _place(self, position: int) -> str:
        image = int(self.images[position])
        return repr(self.words[str(int(self.ids[position]))]) if image < 0 else f"picture {image}"

    def __repr__(self) -> str:
        tokens, positions = self.relevance.shape
        shares = ", ".join(
            f"{self.words[str(token)]!r} {share:.0%}"
            for token, share in zip(self.tokens, self.share().tolist(), strict=True)
        )
        also = f"; the picture also enters at {', '.join(self.besides)}" if self.besides else ""
        return f"RelevanceResult({self.method}: [token {tokens}, position {positions}], on the pictures {shares}{also})"


def _scaled(values: Tensor) -> Tensor:
    """Each row so that its largest is 1, whatever its sign: a rollout's shares are small where tokens are many."""
    return values / values.abs().amax(1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
