"""What positions were found to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments import pictured
from belvedere.experiments.numbers import whole
from belvedere.experiments.saved import Result
from belvedere.geometry import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

    from belvedere.plot.laid import Laid

__all__ = ["TEXT", "AttentionResult"]

#: The kind of what is of no picture.
TEXT = -1
#: What is looked at beside pictures, by kind.
BESIDE = {"cls": "CLS", "register": "registers", "padding": "padding", "newline": "newlines"}
#: What a row may lack to 1 in half precision; what lacks more is a sink's.
ROUNDED = 0.02
#: What is less attention to one box is noise.
NOISE = 1e-3
#: The most panels that a notebook shows unasked.
FEW = 24
#: The most panels of a figure, and what their colours mean.
MOST, UNIT = 200, "share of a position's attention"
Heads = Literal["mean", "each"] | int | Iterable[int]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AttentionResult(Result):
    """How much of its attention each position pays to each key.

    Args:
        attention: ``[layer, query, head, key]``, in float32; a row sums to 1, or to less where a sink takes the rest.
        layers: The block of each row.
        queries: The positions that look.
        texts: By key, the prompt's token as it is written, nothing for one of a picture; empty without a tokenizer, and
            in the tower.
        boxes: ``[key, 4]`` in the original picture's pixels; NaN where a key shows none, or where that is not known.
        images: ``[key]``, the picture's number; -1 for text.
        kinds: ``[key]``, the place in `belvedere.geometry.KINDS`; -1 for text.
        stack: ``"text"``, ``"vision"`` or ``"cross"``.
        skipped: Why some blocks have no pattern, by their numbers.
        settings: What else made it.
        sizes: Width and height of each of the input's pictures; empty where that is not known.
        prints: What tells each of them from other pictures.
        pictures: The pictures themselves, which no file keeps.
        asking: By query, what it is called where it is none of the keys.
    """

    KIND: ClassVar[str] = "attention"
    HEADER: ClassVar[str] = "belvedere.attention"
    HEADINGS: ClassVar[tuple[str, ...]] = ("block", "from", "looks at", "most at")
    axes: ClassVar[tuple[str, ...]] = ("layer", "query", "head", "key")

    attention: Tensor
    layers: tuple[int, ...]
    queries: tuple[int, ...]
    texts: tuple[str, ...]
    boxes: Tensor
    images: Tensor
    kinds: Tensor
    stack: str
    skipped: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, int], ...] = ()
    prints: tuple[tuple[str, ...], ...] = ()
    pictures: tuple[Any, ...] = ()
    asking: tuple[str, ...] = ()

    def groups(self) -> dict[str, Tensor]:
        """The keys of each picture, of each picture's thumbnail, of newlines and the like, and of text.

        Returns:
            By name, ``[n]``; every key is in one of them.
        """
        found: dict[str, list[int]] = {}
        for key, (image, kind) in enumerate(zip(self.images.tolist(), self.kinds.tolist(), strict=True)):
            found.setdefault(self._group(image, kind), []).append(key)
        return {name: torch.tensor(keys) for name, keys in sorted(found.items(), key=lambda one: _rank(one[0]))}

    def shares(self) -> dict[str, Tensor]:
        """How much of the attention each of `groups` gets: by name, ``[layer, query, head]``.

        Together they are 1. Where they are less by more than rounding leaves, ``"sink"`` is the rest.
        """
        found = {name: self.attention[..., keys].sum(-1) for name, keys in self.groups().items()}
        rest = 1 - self.attention.sum(-1)
        return {**found, "sink": rest} if float(rest.max()) > ROUNDED else found

    def on_picture(self, image: int = 0, *, thumbnail: bool = False) -> tuple[Tensor, Tensor]:
        """The attention to what shows a picture, and where that lies; of keys that share a box the sum.

        Args:
            image: The picture's number.
            thumbnail: To its thumbnail, and not to its tiles.

        Returns:
            ``[layer, query, head, n]`` and ``[n, 4]`` in the original picture's pixels.

        Raises:
            InputError: No such key has a known box.
        """
        keys = self.groups().get(self._shown(image, thumbnail), torch.empty(0, dtype=torch.long))
        keys = keys[~self.boxes[keys].isnan().any(-1)]
        if not len(keys):
            what = "thumbnail of a picture" if thumbnail else "picture"
            raise InputError(
                f"there is no {what} {image} whose keys have known boxes; pass the prompt and its pictures and not an "
                "encoding, or use `table()` or `plot()`"
            )
        boxes, own = self.boxes[keys].unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
        if len(boxes) == len(keys):
            return self.attention[..., keys], self.boxes[keys]
        found = self.attention.new_zeros(*self.attention.shape[:-1], len(boxes))
        return found.index_add(-1, own, self.attention[..., keys]), boxes

    def thumbnails(self) -> tuple[int, ...]:
        """The pictures that are shown a second time, small and whole."""
        return tuple(sorted(set(self.images[self.kinds.eq(KINDS.index("thumbnail"))].tolist())))

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"attention of the {self._stack}, mean of {self.attention.shape[2]} heads"

    def lines(self) -> list[tuple[str, ...]]:
        """One line per block and position: what its attention goes to, and the key that gets most, over all heads."""
        shares = {name: share.mean(-1) for name, share in self.shares().items()}
        most, best = self.attention.mean(2).max(-1)
        return [
            (
                str(layer),
                self._who(column),
                ", ".join(f"{name} {float(share[row, column]):.0%}" for name, share in shares.items()),
                f"{self.named(int(best[row, column]))}, {float(most[row, column]):.0%}",
            )
            for row, layer in enumerate(self.layers)
            for column in range(len(self.queries))
        ]

    def plot(self) -> Figure:
        """A map, the mean over heads: a row per block and position that looks, and a column per key."""
        from belvedere import plot

        rows = [
            f"{layer}, {self._who(column)}" if len(self.queries) > 1 else str(layer)
            for layer in self.layers
            for column in range(len(self.queries))
        ]
        return plot.heat(
            self.attention.mean(2).flatten(0, 1),
            rows=rows,
            columns=pictured.labels_of(range(len(self.images)), self.texts),
            spans=pictured.spans_of(self.images, "tokens" if self.stack == "text" else "rows"),
            title=self._heading(f"mean of {self.attention.shape[2]} heads"),
            unit=UNIT,
            down="block" if len(self.queries) == 1 else "block, position",
            across="position" if self.stack == "text" else "row of the tower",
            signed=False,
        )

    def overlay(
        self,
        picture: Image | None = None,
        *,
        image: int | None = None,
        layers: Iterable[int] | int | None = None,
        heads: Heads = "mean",
        outline: tuple[float, float, float, float] | None = None,
        scale: str = "shared",
    ) -> Figure:
        """The pictures, and over each what of the attention goes to it, one panel per block.

        A panel's title says how much of the attention goes to the picture in all. Of tokens that share a box, as a
        resampler's do, the sum is drawn; a thumbnail has panels of its own.

        Args:
            picture: One picture as the model was given it, or where it is; by default all of them.
            image: Its number among the input's pictures; by default it is recognised.
            layers: Some of the blocks; by default all.
            heads: ``"mean"``, the mean over heads; ``"each"``, a panel for each head; or some heads, a panel each.
            outline: A box to draw a line around.
            scale: ``"shared"``, one scale of colours for all panels, or ``"panel"``, one for each.

        Raises:
            InputError: It is another picture than the input's, no key has a box in it, there is no such block or head,
                or there are more panels than can be drawn.
        """
        from belvedere.plot.laid import Shown, drawn

        rows = pictured.checked_layers(layers, self.layers)
        chosen = self._heads(heads)
        shown = [
            Shown(image=asked.picture, name=asked.name, panels=self._panels(asked.image, rows, chosen))
            for asked in self._asked(picture, image)
        ]
        count = sum(len(one.panels) for one in shown)
        if count > MOST:
            raise InputError(
                f"{count} panels are more than can be told apart; choose blocks (`layers=`), heads (`heads=`) or a "
                f"picture, for {MOST} panels at most"
            )
        about = f"mean of {self.attention.shape[2]} heads" if heads == "mean" else "by head"
        return drawn(
            shown,
            heading=self._heading(about),
            unit=UNIT,
            notes=[f"%: how much of {'its' if len(self.queries) == 1 else 'their'} attention goes to what is drawn"],
            outline=pictured.checked_outline(outline),
            scale=scale,
            signed=False,
            least=NOISE,
        )

    def _figure(self) -> Figure:
        """The pictures where they are at hand, for a few panels; else the map."""
        shown = self.boxes[~self.boxes.isnan().any(-1)]
        panels = len(self.layers) * len(self.queries) * len(self.pictures)
        return self.overlay() if self.pictures and len(shown) and panels <= FEW else self.plot()

    def _asked(self, picture: Any, image: int | None) -> list[pictured.Asked]:
        """The pictures that are to be drawn on."""
        if picture is None and not self.pictures:
            raise InputError("this result does not hold its pictures, as of a file or an encoding; pass the picture")
        numbers: list[int | None] = [image]
        if picture is None:
            count = len(self.pictures)
            if image is not None and not 0 <= image < count:
                raise InputError(f"there is no picture {image}; the input shows {count}, counted from 0")
            numbers = list(range(count)) if image is None else [image]
        return [
            pictured.shown_in(
                self.pictures[number or 0] if picture is None else picture,
                number,
                images=self.images,
                sizes=self.sizes,
                known=self.prints,
            )
            for number in numbers
        ]

    def _panels(self, image: int, rows: Sequence[int], heads: Sequence[int] | None) -> list[Laid]:
        """The panels over one picture: by block, by position, by head, by part."""
        from belvedere.plot.laid import Laid

        parts = [self.on_picture(image, thumbnail=thumbnail) for thumbnail in self._kinds_of(image)]
        names = ["", ", thumbnail"]
        made = []
        for row, column in product(rows, range(len(self.queries))):
            for head in [None] if heads is None else heads:
                who = f", {self._who(column)}" if len(self.queries) > 1 else ""
                which = "" if head is None else f", head {head}"
                for (found, boxes), part in zip(parts, names, strict=False):
                    values = found[row, column].mean(0) if head is None else found[row, column, head]
                    title = f"block {self.layers[row]}{which}{who}{part}"
                    says = f"{float(values.sum()):.1%}, at most {float(values.max()):.2g}"
                    made.append(Laid(title=title, values=values, boxes=boxes, says=says))
        return made

    def _kinds_of(self, image: int) -> list[bool]:
        """Whether a picture's panels are of its thumbnail: no, and yes where it has one."""
        return [False, True] if image in self.thumbnails() else [False]

    def _heads(self, heads: Heads) -> list[int] | None:
        """The heads that get panels; ``None`` for their mean."""
        count = self.attention.shape[2]
        if isinstance(heads, str):
            if heads not in ("mean", "each"):
                raise InputError(f"heads={heads!r} is neither 'mean' nor 'each'; or pass numbers")
            return None if heads == "mean" else list(range(count))
        wanted = whole(heads, "heads")
        outside = [head for head in wanted if not -count <= head < count]
        if outside or not wanted:
            what = f"there is no head {outside[0]}" if outside else "`heads` is empty"
            raise InputError(f"{what}; there are {count}, 0 to {count - 1}")
        return [head % count for head in wanted]

    def _heading(self, about: str) -> str:
        who = self._who(0) if len(self.queries) == 1 else f"{len(self.queries)} positions"
        model = pictured.short_name(str(self.settings.get("model", "")))
        what = "row" if self.stack == "vision" else "position"
        start = f"attention of the {self._stack} from {what if len(self.queries) == 1 else ''} {who}, {about}"
        return " ".join(start.split()) + (f"\n{model}" if model else "")

    def named(self, key: int) -> str:
        """What a position or a row of the tower is called: its number, and its token or its picture.

        Args:
            key: The position.
        """
        image, kind = int(self.images[key]), int(self.kinds[key])
        if kind != TEXT:
            return f"{key} ({self._group(image, kind)})"
        return f"{key} '{pictured.spelled(self.texts[key])}'" if self.texts else str(key)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to one file, without the pictures.

        Args:
            path: The file.
        """
        super(AttentionResult, replace(self, pictures=())).save(path)

    def _group(self, image: int, kind: int) -> str:
        if kind == TEXT:
            return "text"
        return BESIDE.get(KINDS[kind]) or self._shown(image, KINDS[kind] == "thumbnail")

    def _shown(self, image: int, thumbnail: bool) -> str:
        count = max(len(self.sizes), int(self.images.max()) + 1)
        name = "picture" if count == 1 else f"picture {image}"
        return f"{name}'s thumbnail" if thumbnail else name

    @property
    def _stack(self) -> str:
        return "tower" if self.stack == "vision" else "text"

    def _who(self, column: int) -> str:
        """What a position that looks is called."""
        return self.asking[column] if self.asking else self.named(self.queries[column])

    def __repr__(self) -> str:
        shape = ", ".join(f"{name} {length}" for name, length in zip(self.axes, self.attention.shape, strict=True))
        shares = ", ".join(f"{name} {float(share.mean()):.0%}" for name, share in self.shares().items())
        return f"AttentionResult({self._stack}: [{shape}], {shares})"


def _rank(name: str) -> tuple[bool, bool, str]:
    """Pictures come first, and text last."""
    return name == "text", not name.startswith("picture"), name
