"""What `support()` returns: its rows by standard path, and the nearest ones for a path that is none."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

__all__ = ["Support"]

#: A block's number, or a part of a block, which the paths of `support()` leave out.
LEFT_OUT = re.compile(r"\[[^]]*\]|\.(self_attn|linear_attn|cross_attn|conv|mlp)(?=\.)")


class Support(dict[str, Any]):
    """A dictionary of values by standard path; a path that it lacks raises a ``KeyError`` that names the nearest."""

    def __missing__(self, path: str) -> Any:
        near = self.nearest(str(path))
        raise KeyError(f"no value {path!r} here{'; did you mean ' if near else ''}{' or '.join(map(repr, near))}")

    def nearest(self, path: str) -> list[str]:
        """The paths that one may have meant: without block number and part, of the same last name, or spelled so."""
        plain = LEFT_OUT.sub("", path)
        if plain in self:
            return [plain]
        last = plain.rpartition(".")[2]
        alike = [name for name in self if name.rpartition(".")[2] == last]
        return alike or get_close_matches(plain, self, n=2)
