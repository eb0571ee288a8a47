"""The root of a text stack or a tower, which hands its own tables to its subtree and to nothing else."""

from __future__ import annotations

from typing import Any, ClassVar

from belvedere.components.block_list import Blocks
from belvedere.components.standard import Standard

__all__ = ["Stack", "Text"]


class Stack(Standard):
    """The root of a text stack or a tower: its subtree answers to its own entry's names.

    The entry is chosen by the root's family, which `belvedere.families.compose` reads off the config before any module
    is built. A user's ``rename=`` and ``envoys=`` come down from the root and win.

    Attributes:
        SHELF: The shelf of its entry.
        LISTS: The standard names of its lists of blocks, in the order of the forward.
    """

    SHELF: ClassVar[str]
    LISTS: ClassVar[tuple[str, ...]] = ("layers",)

    def __init__(self, module: Any, **kwargs: Any) -> None:
        entry = kwargs["parent"].root.family.entry(self.SHELF)
        kwargs["rename"] = {**entry.RENAME, **(kwargs["rename"] or {})}
        lists = dict.fromkeys(self.LISTS, Blocks)
        kwargs["envoys"] = {**(kwargs["envoys"] or {}), **entry.ENVOYS, **lists}
        super().__init__(module, **kwargs)

    @property
    def config(self) -> Any:
        """The stack's own config, as its module carries it."""
        return self._module.config

    def unread(self) -> str | None:
        """``None``: a stack as a whole is read."""
        return None

    def parts(self, name: str) -> list[int]:
        """The numbers of the blocks that have a part of this name, such as ``"linear_attn"``."""
        return [number for number, block in enumerate(self.layers) if name in vars(block)]


class Text(Stack):
    """The text stack: embedding, blocks and final norm, which the root lifts to itself."""

    SHELF = "text"

    @property
    def name(self) -> str:
        """Empty: the text stack's names are the root's."""
        return ""
