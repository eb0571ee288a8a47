"""A stack's list of blocks, which has no values of its own and says where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from nnsight.intervention.envoy import Envoy

from belvedere.components.standard import NoName, Standard, is_lost

if TYPE_CHECKING:
    from belvedere.components.layer import Layer
    from belvedere.components.vision_block import VisionLayer

__all__ = ["Blocks"]


class Blocks(Envoy):
    """The blocks of a stack, by number: ``model.layers[3]``, ``model.layers[-1]``, ``for block in model.layers``."""

    # What a notebook completes after `model.layers[0].` is read off this annotation.
    @overload
    def __getitem__(self, key: int) -> Layer | VisionLayer: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        """One block by its number, or a list of several by a slice."""
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name.startswith("_") or "_child_map" not in self.__dict__:
                raise
            raise NoName(lambda: f"{self._said()} has no {name!r}{self._hint(name)}") from error

    def __setattr__(self, name: str, written: Any) -> None:
        """Inside a trace nothing is written to a list; the write would vanish."""
        if is_lost(self, name):
            raise AttributeError(f"{self._said()} has no value {name!r} to write{self._hint(name)}")
        super().__setattr__(name, written)

    def _said(self) -> str:
        return f"{self._standard_name()}, a list of {len(self)} blocks,"

    def _standard_name(self) -> str:
        first = next(iter(self), None)
        return first.name.rpartition("[")[0] if isinstance(first, Standard) else str(self.path)

    def _hint(self, name: str) -> str:
        first = next(iter(self), None)
        if not isinstance(first, Standard):
            return ""
        where = f"{self._standard_name()}[i]"
        if name in first.values():
            return f"; it is a value of {where}"
        return first.hint(name).replace(first.name, where)
