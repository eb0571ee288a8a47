"""Tiny random checkpoints of every type that Belvedere names, for tests of one's own."""

from __future__ import annotations

from typing import Any

import torch

from belvedere.testing.row import Row
from belvedere.testing.weights import randomize
from belvedere.testing.zoo import ROWS

__all__ = ["build"]


def build(name: str, attention: str = "sdpa", **overrides: Any) -> Any:
    """A row's module with seeded random weights.

    Args:
        name: A row of the zoo.
        attention: The attention implementation; the row's first one where it does not take it.
        **overrides: Fields of the row's config.
    """
    import transformers

    row: Row = ROWS[name]
    config = row.config()
    config.update(overrides)
    attention = attention if attention in row.kernels else row.kernels[0]
    torch.manual_seed(0)
    module = getattr(transformers, row.auto).from_config(config, attn_implementation=attention)
    return randomize(module)
