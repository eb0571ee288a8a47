"""What a lens read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments import pictured
from belvedere.experiments.saved import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

    from belvedere.standardized import StandardizedTransformer

__all__ = ["LensResult", "words_of"]

#: How many words a line of the table shows.
COMMON = 4


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LensResult(Result):
    """The likeliest words at each block and position.

    Args:
        tokens: ``[layer, position, top]``, the likeliest tokens, best first.
        probabilities: ``[layer, position, top]``, theirs.
        watched: ``[layer, position, watch]``, the probabilities of the tokens that were asked for.
        boxes: ``[position, 4]`` in the original picture's pixels; NaN where that is not known, or for text.
        images: ``[position]``, the picture's number; -1 for text.
        watch: The tokens that were asked for.
        words: How each token is written, by its number.
        layers: The block of each row.
        positions: The prompt's position of each column.
        value: The standard path of what was read.
        settings: What else made it.
        sizes: Width and height of each of the input's pictures; empty where that is not known.
        prints: What tells each of them from other pictures.
        texts: By position, the prompt's token as it is written; empty without a tokenizer.
    """

    KIND: ClassVar[str] = "lens"
    HEADER: ClassVar[str] = "belvedere.lens"
    HEADINGS: ClassVar[tuple[str, ...]] = ("block", "read as, positions", "mean probability")
    axes: ClassVar[tuple[str, str, str]] = ("layer", "position", "top")

    tokens: Tensor
    probabilities: Tensor
    watched: Tensor
    boxes: Tensor
    images: Tensor
    watch: tuple[int, ...]
    words: Mapping[str, str]
    layers: tuple[int, ...]
    positions: tuple[int, ...]
    value: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, int], ...] = ()
    prints: tuple[tuple[str, ...], ...] = ()
    texts: tuple[str, ...] = ()

    def reading(self, layer: int, place: int = 0) -> list[str]:
        """The words of a block, one for each position.

        Args:
            layer: The block.
            place: 0 for the likeliest, 1 for the next, and so on.

        Raises:
            InputError: The lens did not read that block, or kept fewer words.
        """
        (row,) = pictured.checked_layers(layer, self.layers)
        if not 0 <= place < self.tokens.shape[-1]:
            raise InputError(f"there is no place {place}; the lens kept {self.tokens.shape[-1]} words (`top=`)")
        return [self.words[str(token)] for token in self.tokens[row, :, place].tolist()]

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"{self.value} through the lens, {len(self.positions)} positions"

    def lines(self) -> list[tuple[str, ...]]:
        """One line per block: its commonest words, and how sure the lens is of the likeliest."""
        means = self.probabilities[..., 0].mean(1).tolist()
        common = [Counter(self.reading(layer)).most_common(COMMON) for layer in self.layers]
        return [
            (str(layer), ", ".join(f"{word!r} {count}" for word, count in words), f"{mean:.3f}")
            for layer, words, mean in zip(self.layers, common, means, strict=True)
        ]

    def plot(self, token: int | None = None) -> Figure:
        """A map of probabilities, a row per block and a column per position.

        Args:
            token: A watched token; by default the likeliest of each position, whatever it is.

        Raises:
            InputError: The token was not watched.
        """
        from belvedere import plot

        what = "of the likeliest word" if token is None else f"of {self.words.get(str(token))!r}"
        values = self.probabilities[..., 0] if token is None else self._watched(token)
        return plot.heat(
            values,
            rows=self.layers,
            columns=pictured.labels_of(self.positions, self.texts),
            spans=pictured.spans_of(self.images, "tokens"),
            title=pictured.headed("lens", self.value, self.settings),
            unit=f"probability {what}",
            signed=False,
        )

    def overlay(
        self,
        picture: Image,
        *,
        image: int | None = None,
        layers: Sequence[int] | None = None,
        token: int | None = None,
        outline: tuple[float, float, float, float] | None = None,
        scale: str = "shared",
    ) -> Figure:
        """The picture, and the words over it, each in its own box, one panel per block.

        Args:
            picture: The picture as the model was given it, or where it is.
            image: Its number in the prompt; by default it is recognised.
            layers: Some of the blocks; by default all.
            token: A watched token, whose probability colours the boxes; by default that of each box's own word does.
            outline: A box to draw a line around.
            scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.

        Raises:
            InputError: It is another picture than the input's, no position has a box in it, or the token was not
                watched.
        """
        from belvedere import plot

        if bool(self.boxes.isnan().all()):
            raise InputError(
                "none of the positions has a known box in a picture; pass the lens image tokens, and the prompt and "
                "its pictures and not an encoding, or use `table()` or `plot()`"
            )
        asked = pictured.shown_in(picture, image, images=self.images, sizes=self.sizes, known=self.prints)
        chosen = (self.images.eq(asked.image) & ~self.boxes.isnan().any(-1)).nonzero().flatten()
        if not len(chosen):
            raise InputError(
                f"none of the positions has a known box in picture {asked.image}; pass another, or use `table()` or "
                "`plot()`"
            )
        rows = pictured.checked_layers(layers, self.layers)
        wanted = [self.layers[row] for row in rows]
        values = self.probabilities[..., 0] if token is None else self._watched(token)
        what = "each box's likeliest word" if token is None else repr(self.words[str(token)])
        texts = [[self.reading(layer)[place] for place in chosen.tolist()] for layer in wanted]
        return plot.words(
            texts,
            values[rows][:, chosen],
            self.boxes[chosen],
            asked.picture,
            titles=[f"block {layer}" for layer in wanted],
            heading=pictured.headed("lens", self.value, self.settings) + "\neach box says its likeliest word",
            unit=f"probability of {what}",
            outline=pictured.checked_outline(outline),
            scale=scale,
            name=asked.name,
        )

    def _watched(self, token: int) -> Tensor:
        if token not in self.watch:
            raise InputError(f"token {token} was not watched; call the lens with `watch=[{token}]`")
        return self.watched[..., self.watch.index(token)]

    def __repr__(self) -> str:
        layers, positions, top = self.tokens.shape
        return f"LensResult({self.value}: tokens [layer {layers}, position {positions}, top {top}])"


def words_of(model: StandardizedTransformer, tokens: Iterable[int]) -> dict[str, str]:
    """How tokens are written, by their numbers; a model without a tokenizer has numbers only."""
    numbers = sorted(set(tokens))
    if model.tokenizer is None:
        return {str(number): f"#{number}" for number in numbers}
    return {str(number): str(model.tokenizer.decode([number])) for number in numbers}
