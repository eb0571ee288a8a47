"""Which part of which picture each row of a tower and each image token is, and back: the `PatchLayout`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.geometry.boxes import boxes_over
from belvedere.geometry.cells import Box, Cells, Region
from belvedere.geometry.grids import Arrangement, Grids

__all__ = ["PatchLayout"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PatchLayout:
    """Where the patches and image tokens of one input are; host integers only, made without a forward.

    ::

        layout = model.layout(prompt, images=[image])
        layout.patches[17]                     # Cell(image=0, row=2, column=1, source_box=(...), ...)
        layout.tokens_in((40, 0, 80, 40))      # the image tokens that show a box of the picture
        layout.to_grid(features)[0]            # [frames, rows, columns, hidden] of picture 0

    Args:
        patches: What each row of the tower's patch axis is; the rows of several pictures or tiles follow each other.
        tokens: What each image token is, in the order of ``vision.image_features``.
        arrangements: The orders in which values come: ``"patches"`` (the blocks' rows), ``"patch_embeddings"``,
            ``"tokens"``, ``"merged_patches"`` and ``"sequence"``, as far as the model has them.
        positions: ``[tokens, 2]``, the prompt's row and the position in its sequence of each image token; empty where
            the input has no ids.
        links: ``[pairs, 2]``, a token and a patch that it is made of, by token.
        mixed: ``[tokens]``, True where a token is made of all patches of its picture or tile, as a resampler's are.
        sizes: Width and height of each original picture; empty where they are not known.
        sequence: Rows and length of the prompts; ``(0, 0)`` where the input has no ids, or none of
            a picture.
        unsourced: Why the boxes in the original pictures are not known; ``None`` where they are.
        untold: Why no image token is of a picture; ``None`` where they are.
    """

    patches: Cells
    tokens: Cells
    arrangements: Mapping[str, Arrangement]
    positions: Tensor
    links: Tensor
    mixed: Tensor
    sizes: tuple[tuple[int, int], ...] = ()
    sequence: tuple[int, int] = (0, 0)
    unsourced: str | None = field(default=None)
    untold: str | None = field(default=None)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The grids of patches: the pictures and their thumbnails."""
        return self.arrangements["patches"].regions

    @property
    def token_regions(self) -> tuple[Region, ...]:
        """The grids of image tokens."""
        return self.arrangements["tokens"].regions

    @property
    def images(self) -> int:
        """How many pictures there are."""
        return max((region.image for region in self.regions), default=-1) + 1

    def rows_of(self, image: int) -> Tensor:
        """The tower's rows that are of a picture, its CLS and padding among them: ``[n]``."""
        return self._of(self.patches, image)

    def tokens_of(self, image: int) -> Tensor:
        """The image tokens that stand for a picture, its thumbnail's and newlines among them: ``[n]``.

        They index ``vision.image_features``; ``positions[tokens_of(image)]`` are their places in the sequence.

        Raises:
            InputError: There is no such picture, or no token is of one.
        """
        self._told()
        return self._of(self.tokens, image)

    def patches_of(self, token: int) -> Tensor:
        """The tower's rows that an image token is made of: ``[n]``; none for a newline.

        A resampler's token (``mixed``) is made of all patches of its picture or tile.
        """
        self._told()
        self._check(token, len(self.tokens), "image token")
        if not self.mixed[token]:
            return self.links[self.links[:, 0].eq(token % len(self.tokens)), 1]
        piece = int(self.tokens.piece[token])
        same = self.patches.piece.eq(piece) if piece >= 0 else self.patches.image.eq(self.tokens.image[token])
        return (same & self.patches.of_kind("patch")).nonzero().flatten()

    def readers_of(self, patch: int) -> Tensor:
        """The image tokens that a row of the tower goes into: ``[n]``; none for a row that is dropped."""
        self._check(patch, len(self.patches), "row")
        linked = self.links[self.links[:, 1].eq(patch % len(self.patches)), 0]
        same = self.tokens.piece.eq(self.patches.piece[patch])
        whole = self.tokens.piece.eq(-1) & self.tokens.image.eq(self.patches.image[patch])
        shown = bool(self.patches.of_kind("patch")[patch])
        return torch.cat([linked, (self.mixed & (same | whole) & shown).nonzero().flatten()])

    def token_of(self, patch: int) -> int | None:
        """The image token that a row of the tower goes into; ``None`` where it is dropped on the way.

        Raises:
            InputError: Several tokens are made of it.
        """
        readers = self.readers_of(patch)
        if len(readers) > 1:
            raise InputError(
                f"row {patch} goes into {len(readers)} image tokens, which this wrapper mixes; read readers_of({patch})"
            )
        return int(readers[0]) if len(readers) else None

    def patches_in(self, box: Box, image: int = 0) -> Tensor:
        """The tower's rows that show a box of the original picture, in tiles and thumbnail alike: ``[n]``.

        Args:
            box: ``(left, top, right, bottom)`` in the original picture's pixels; a shared border is no overlap.
            image: The picture's number.

        Raises:
            InputError: The box is empty or outside of the picture, or where patches lie in it is not known.
        """
        box, image = self._clipped(box, image), image % max(self.images, 1)
        return (boxes_over(self.patches.source_box, box) & self.patches.image.eq(image)).nonzero().flatten()

    def tokens_in(self, box: Box, image: int = 0) -> Tensor:
        """The image tokens that are made of a patch that shows a box of the original picture: ``[n]``.

        Args:
            box: ``(left, top, right, bottom)`` in the original picture's pixels.
            image: The picture's number.

        Raises:
            InputError: As for `patches_in`.
        """
        self._told()
        shown, image = self.patches_in(box, image), image % max(self.images, 1)
        linked = self.links[torch.isin(self.links[:, 1], shown), 0]
        pieces = torch.isin(self.tokens.piece, self.patches.piece[shown])
        whole = self.tokens.piece.eq(-1) & self.tokens.image.eq(image) & bool(len(shown))
        chosen = torch.zeros(len(self.tokens), dtype=torch.bool)
        chosen[linked] = True
        return (chosen | (self.mixed & (pieces | whole))).nonzero().flatten()

    def to_grid(self, value: Tensor, *, of: str | None = None, dim: int = 0, prompt: int | None = None) -> Grids:
        """Any value of patches or image tokens as the pictures lie: ``[frames, rows, columns, ...]`` for each.

        The tower's own order is undone (merge blocks, windows, tiles, padding), and CLS, padding and newlines are set
        apart. So `from_grid` of the result is the value again.

        Args:
            value: ``[rows, ...]``, ``[images, rows, ...]`` or ``[1, rows, ...]`` of the tower, ``[tokens, ...]`` of the
                image tokens, or ``[batch, seq, ...]`` of the text, from which the image tokens are taken.
            of: Which of `arrangements` the value has; told by its length where that leaves no doubt.
            dim: The axis of rows, where it is not the first: ``to_grid(pattern[0, :, -1], dim=-1)`` lays out what each
                head of a text block attends to.
            prompt: Which prompt of a batch the axis is the sequence of; its own pictures alone are laid out then.

        Raises:
            InputError: No axis of this length is known, or several are; or the value is no tensor with such an axis.
        """
        if not isinstance(value, Tensor) or not -value.ndim <= dim < value.ndim:
            raise InputError(f"axis {dim} of {_shown(value)} cannot be laid out; pass a tensor that has such an axis")
        if prompt is not None:
            return self._prompt_alone(value, prompt, dim).laid(value, dim % value.ndim, (value.shape[dim],))
        name, lead = self._arranged(value, of, dim)
        return self.arrangements[name].laid(value, dim % value.ndim, lead)

    def from_grid(self, grids: Grids | Sequence[Tensor], *, of: str | None = None) -> Tensor:
        """The way back of `to_grid`: the value in the tower's own order.

        Args:
            grids: What `to_grid` gave, edited or not; or a ``[frames, rows, columns, ...]`` for each of `regions`
                (`token_regions`), a picture's before its thumbnail's. What stands in no grid is then zero.
            of: Which of `arrangements` a plain list becomes; the tower's rows by default.

        Raises:
            InputError: The grids are not of this layout's sizes.
        """
        if isinstance(grids, Grids):
            flat = grids.arrangement.flat(grids.maps, grids.rest, grids.dim)
            return flat.reshape(*grids.lead, *flat.shape[1:]) if len(grids.lead) > 1 else flat
        arrangement = self.arrangements[of or "patches"]
        shapes = [tuple(one.shape[:3]) for one in grids]
        if shapes != [region.shape for region in arrangement.regions]:
            wanted = ", ".join(str(region) for region in arrangement.regions)
            raise InputError(f"grids of {shapes} were given; this layout has {wanted}")
        return arrangement.flat(list(grids), None, 0)

    def _prompt_alone(self, value: Tensor, prompt: int, dim: int) -> Arrangement:
        """The arrangement of one prompt's sequence, which an axis of a value is, with its own pictures."""
        self._check(prompt, self.sequence[0], "prompt")
        whole, length, prompt = self.arrangements["sequence"], self.sequence[1], prompt % self.sequence[0]
        if value.shape[dim] != length:
            raise InputError(f"axis {dim} of {list(value.shape)} is no sequence of a prompt, which is {length} long")
        own = [(region, at - prompt * length) for region, at in zip(whole.regions, whole.placed, strict=True)]
        own = [(region, at) for region, at in own if len(at) and 0 <= int(at[0]) < length]
        outside = torch.ones(length, dtype=torch.bool)
        for _, at in own:
            outside[at] = False
        placed = tuple(at for _, at in own)
        regions = tuple(region for region, _ in own)
        return Arrangement(f"prompt {prompt}", regions, placed, outside.nonzero().flatten())

    def _arranged(self, value: Tensor, of: str | None, dim: int) -> tuple[str, tuple[int, ...]]:
        """Which arrangement a value has, and the shape of its axis of rows, two axes where it is spread over them."""
        if of is not None and of not in self.arrangements:
            raise InputError(f"of={of!r} is no order of this model's rows; there are {', '.join(self.arrangements)}")
        found: dict[str, tuple[int, ...]] = {}
        for name, arrangement in self.arrangements.items():
            lead = self._lead(name, arrangement, value, dim) if of in (None, name) else ()
            if lead and not any(arrangement.is_like(self.arrangements[other]) for other in found):
                found[name] = lead
        if of is None and self.sequence[0] > 1 and value.shape[dim] == self.sequence[1] and (dim or not found):
            doubt = "".join(f", or of={name!r}" for name in found)
            raise InputError(
                f"axis {dim} of {list(value.shape)} is as long as each of {self.sequence[0]} prompts; pass prompt=0, "
                f"1, ... to say which{doubt}"
            )
        if len(found) == 1:
            return next(iter(found.items()))
        known = ", ".join(f"{name} {len(one)}" for name, one in self.arrangements.items())
        if not found:
            raise InputError(f"axis {dim} of {list(value.shape)} is none that this layout knows; it has {known}")
        names = " or ".join(f"of={name!r}" for name in found)
        raise InputError(f"{list(value.shape)} may be several things here; pass {names}")

    def _lead(self, name: str, arrangement: Arrangement, value: Tensor, dim: int) -> tuple[int, ...]:
        count = len(arrangement)
        if value.ndim and value.shape[dim] == count and (name != "sequence" or self.sequence[0] == 1):
            return (count,)
        if dim or value.ndim < 2 or prod(value.shape[:2]) != count:
            return ()
        shape = tuple(value.shape[:2])
        return shape if name != "sequence" or shape == self.sequence else ()

    def _of(self, cells: Cells, image: int) -> Tensor:
        self._check(image, self.images, "picture")
        return cells.image.eq(image % self.images).nonzero().flatten()

    def _clipped(self, box: Box, image: int) -> Box:
        self._check(image, self.images, "picture")
        if self.unsourced is not None:
            raise InputError(f"where a patch lies in the original picture is not known: {self.unsourced}")
        width, height = self.sizes[image]
        left, top, right, bottom = box
        if any(side != side for side in box):
            raise InputError(f"the box {box} has a side that is no number; pass (left, top, right, bottom)")
        clipped = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
        if clipped[0] >= clipped[2] or clipped[1] >= clipped[3]:
            raise InputError(f"the box {box} covers nothing of picture {image}, which is {width} x {height}")
        return clipped

    def _told(self) -> None:
        if self.untold is not None:
            raise InputError(self.untold)

    @staticmethod
    def _check(number: int, count: int, what: str) -> None:
        if not -count <= number < count:
            raise InputError(f"there is no {what} {number}; there are {count}")

    def __repr__(self) -> str:
        kinds = {name: len(one) for name, one in self.arrangements.items() if name in ("patches", "tokens")}
        shown = "; ".join(str(region) for region in self.regions)
        return f"PatchLayout({shown}; {kinds['patches']} rows, {kinds['tokens']} image tokens)"

    def _repr_html_(self) -> str:
        """A table of the grids, for a notebook."""
        own = dict(zip(map(_grid, self.token_regions), self.arrangements["tokens"].placed, strict=True))
        rows = [
            (str(region), len(placed), len(own.get(_grid(region), ())))
            for region, placed in zip(self.regions, self.arrangements["patches"].placed, strict=True)
        ]
        rows.append(("all, with what stands in no grid", len(self.patches), len(self.tokens)))
        lines = "".join(
            f"<tr><td>{grid}</td><td>{patches}</td><td>{tokens}</td></tr>" for grid, patches, tokens in rows
        )
        return f"<table><tr><th>grid of patches</th><th>rows</th><th>image tokens</th></tr>{lines}</table>"


def _grid(region: Region) -> tuple[int, str]:
    return region.image, region.part


def _shown(value: Any) -> str:
    return str(list(value.shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"
