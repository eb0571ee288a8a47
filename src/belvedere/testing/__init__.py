"""Tiny models of every family that Belvedere names, from each architecture's own config class with random weights."""

# nnsight patches transformers' models, so it must be imported before any of them.
import nnsight  # noqa: F401

from belvedere.testing.row import Row
from belvedere.testing.tiny import Tiny, build, tiny
from belvedere.testing.weights import randomize
from belvedere.testing.zoo import ROWS

__all__ = ["ROWS", "Row", "Tiny", "build", "randomize", "tiny"]
