"""How many tiles and image tokens each picture becomes, read off the prompt where nothing else says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from belvedere.families.facts import Tiled, Tokens

__all__ = ["by_last_tag", "by_run", "by_start", "quartered", "real_tiles"]

#: Numbers a prompt's placeholders by picture, from its ids and the placeholders' positions.
Numbering = Callable[[Any, Tensor, Tensor], Tensor]


def by_run(tokens: Tokens, apart: int = 0) -> Tiled:
    """A picture's tiles stand in one run of placeholders (InternVL), or close to each other (Cohere 2 Vision).

    Args:
        tokens: How many tokens a tile becomes.
        apart: How many other tokens may stand between two tiles of a picture; between pictures there are more.
    """

    def numbering(config: Any, ids: Tensor, at: Tensor) -> Tensor:
        return (at.diff(prepend=at[:1]) > apart + 1).cumsum(0)

    return _read(tokens, numbering)


def by_start(tokens: Tokens, start: str) -> Tiled:
    """A picture's tiles stand between separators, behind one token that begins the picture (Llama 4).

    Args:
        tokens: How many tokens a tile becomes.
        start: The config's name for that token's id.
    """

    def numbering(config: Any, ids: Tensor, at: Tensor) -> Tensor:
        starts = ids.eq(getattr(config, start))
        # A prompt written by hand may do without, and then every run is a picture.
        return starts.cumsum(0)[at] if starts.any() else (at.diff(prepend=at[:1] - 2) > 1).cumsum(0)

    return _read(tokens, numbering)


def by_last_tag(tokens: Tokens) -> Tiled:
    """A tag stands before each tile, and the whole picture comes last behind a tag of its own (Idefics 3).

    The tag of the prompt's last tile is that of a whole picture, and so ends each picture.
    """

    def numbering(config: Any, ids: Tensor, at: Tensor) -> Tensor:
        starts = at.diff(prepend=at[:1] - 2) > 1
        tags = ids[(at[starts] - 1).clamp(min=0)]
        whole = tags.eq(tags[-1:]).cumsum(0)
        return torch.nn.functional.pad(whole, (1, 0))[starts.cumsum(0) - 1]

    return _read(tokens, numbering)


def quartered(processor: Any) -> int:
    """Idefics 2: four quarters and the whole picture, where its processor splits pictures."""
    return 5 if getattr(getattr(processor, "image_processor", None), "do_image_splitting", False) else 1


def real_tiles(pixels: Tensor) -> int:
    """The tiles of pictures stacked by prompt, ``[prompts, tiles, ...]``: those that are all zeros pad the stack."""
    return int(pixels.flatten(0, -4).flatten(1).ne(0).any(1).sum())


def _read(tokens: Tokens, numbering: Numbering) -> Tiled:
    def tiled(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
        each = _each(config, encoding, tokens, rows, columns)
        if encoding.get("input_ids") is None:
            return [(1, own) for own in each]
        return _dealt(each, list(_counts(config, torch.as_tensor(encoding["input_ids"]), numbering)))

    return tiled


def _each(config: Any, encoding: Mapping[str, Any], tokens: Tokens, rows: int, columns: int) -> list[int]:
    """The image tokens of each tile, one after the other."""
    shapes, pixels = encoding.get("spatial_shapes"), torch.as_tensor(encoding["pixel_values"])
    if shapes is not None:
        return [tokens(config, int(high), int(wide), 0) for high, wide in shapes]
    return [tokens(config, rows, columns, 0)] * (real_tiles(pixels) if pixels.ndim == 5 else len(pixels))


def _counts(config: Any, ids: Tensor, numbering: Numbering) -> Iterator[int]:
    """The placeholders of each picture, prompt by prompt."""
    for prompt in ids:
        at = prompt.eq(config.image_token_id).nonzero().flatten()
        if len(at):
            yield from Counter(numbering(config, prompt, at).tolist()).values()


def _dealt(each: list[int], counts: list[int]) -> list[tuple[int, int]]:
    """How many of the tiles each picture's placeholders are of."""
    ends = {end: number for number, end in enumerate(accumulate(each, initial=0))}
    stops = [ends.get(end) for end in accumulate(counts, initial=0)]
    if None in stops or stops[-1] != len(each):
        # The prompt was cut off, or has another model's placeholders: one tile for a picture shows that.
        return [(1, own) for own in each]
    tiles = torch.tensor(stops).diff().tolist()
    return list(zip(tiles, counts, strict=True))
