"""Tiny models of every family that Belvedere names, from each architecture's own config class with random weights."""

from zoo.rows import ROWS, Row, build

__all__ = ["ROWS", "Row", "build"]
