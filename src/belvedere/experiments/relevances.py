"""What was found to be relevant to each token of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments import pictured
from belvedere.experiments.saved import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

__all__ = ["RelevanceResult"]

#: What a figure calls a method, where that is no noun.
NAMES = {"weighted": "weighted attention"}
#: What is less of a score is noise.
NOISE = 1e-4
#: What relevance is measured in, by its method.
UNITS = {
    "gradient": "gradient times input, in units of the score",
    "rollout": "share of the attention's flow",
    "weighted": "flow along weighted attention",
}


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
        sizes: Width and height of each of the input's pictures; empty where that is not known.
        prints: What tells each of them from other pictures.
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
    sizes: tuple[tuple[int, int], ...] = ()
    prints: tuple[tuple[str, ...], ...] = ()

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

        places = range(self.relevance.shape[1])
        texts = [
            "" if image >= 0 else self.words[str(token)]
            for token, image in zip(self.ids.tolist(), self.images.tolist(), strict=True)
        ]
        return plot.heat(
            self.relevance,
            rows=[repr(self.words[str(token)]) for token in self.tokens],
            columns=pictured.labels_of(places, texts),
            spans=pictured.spans_of(self.images, "tokens"),
            title=self._heading(),
            unit=UNITS[self.method],
            down="token",
            signed=self.method == "gradient",
            least=NOISE,
        )

    def overlay(
        self,
        picture: Image,
        *,
        image: int | None = None,
        patches: bool = False,
        outline: tuple[float, float, float, float] | None = None,
        scale: str = "shared",
    ) -> Figure:
        """The picture, and the relevance over it, one panel per token of the answer.

        Args:
            picture: The picture as the model was given it, or where it is.
            image: Its number in the prompt; by default it is recognised.
            patches: Draw the tower's patches rather than the image tokens.
            outline: A box to draw a line around.
            scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.

        Raises:
            InputError: It is another picture than the input's, or where its tokens or patches lie is not known.
        """
        from belvedere import plot

        values, boxes, images = self.relevance, self.boxes, self.images
        if patches:
            values, boxes, images = self.on_patches(), self.patch_boxes, self.patch_images
        if bool(boxes.isnan().all()):
            raise InputError(
                "nothing has a known box in a picture; pass the prompt and its pictures and not an encoding, or use "
                "`table()` or `plot()`"
            )
        asked = pictured.shown_in(picture, image, images=images, sizes=self.sizes, known=self.prints)
        chosen = images.eq(asked.image) & ~boxes.isnan().any(-1)
        if not bool(chosen.any()):
            raise InputError(f"nothing has a known box in picture {asked.image}; use `table()` or `plot()`")
        return plot.strips(
            values[:, chosen],
            boxes[chosen],
            asked.picture,
            titles=[repr(self.words[str(token)]) for token in self.tokens],
            heading=self._heading(),
            unit=UNITS[self.method],
            outline=pictured.checked_outline(outline),
            scale=scale,
            name=asked.name,
            signed=self.method == "gradient",
            least=NOISE,
        )

    def _heading(self) -> str:
        # A rollout is of no score: it knows no answer.
        settings = {key: held for key, held in self.settings.items() if self.method != "rollout" or key == "model"}
        return pictured.headed("relevance", NAMES.get(self.method, self.method), settings, joint="by")

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
