"""How many tiles and image tokens each picture becomes, read off the prompt where nothing else says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from belvedere.families.facts import Tiled, Tokens

__all__ = ["by_run", "by_start"]


def by_run(tokens: Tokens) -> Tiled:
    """A picture's tiles stand in one run of placeholders, each with as many tokens (InternVL)."""

    def tiled(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
        def pictures(ids: Tensor, shown: Tensor) -> Tensor:
            return (shown & ~torch.nn.functional.pad(shown, (1, 0))[:, :-1]).cumsum(-1)

        return _counted(config, encoding, tokens(config, rows, columns, 0), pictures)

    return tiled


def by_start(tokens: Tokens, start: str) -> Tiled:
    """A picture's tiles stand between separators, behind one token that begins the picture (Llama 4).

    Args:
        tokens: How many tokens a tile becomes.
        start: The config's name for that token's id.
    """

    def tiled(config: Any, encoding: Mapping[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
        def pictures(ids: Tensor, shown: Tensor) -> Tensor:
            return ids.eq(getattr(config, start)).cumsum(-1)

        return _counted(config, encoding, tokens(config, rows, columns, 0), pictures)

    return tiled


def _counted(config: Any, encoding: Mapping[str, Any], each: int, pictures: Any) -> list[tuple[int, int]]:
    """The tiles and tokens of each picture, where ``pictures`` numbers a prompt's positions by picture."""
    tiles = len(encoding["pixel_values"])
    if encoding.get("input_ids") is None:
        return [(1, each)] * tiles
    ids = torch.as_tensor(encoding["input_ids"])
    shown = ids.eq(config.image_token_id)
    numbered = pictures(ids, shown)
    counts = [
        int(count) for row, own in zip(numbered, shown, strict=True) for count in row[own].unique(return_counts=True)[1]
    ]
    if sum(counts) != tiles * each or any(count % each for count in counts):
        # The prompt was cut off, or has another model's placeholders: one tile for a picture shows that.
        return [(1, each)] * tiles
    return [(count // each, count) for count in counts]
