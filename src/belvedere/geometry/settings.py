"""What an image or video processor is set to do, read from the object and from what a call changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from belvedere.errors import InputError

__all__ = ["Settings"]


class Settings:
    """The settings of one call.

    Args:
        processor: The image or video processor, or the whole processor that holds it.
        given: What the call sets otherwise; with ``frames``, the video processor is asked.
    """

    def __init__(self, processor: Any, given: Mapping[str, Any]) -> None:
        part = "image" if given.get("frames") is None else "video"
        own = getattr(processor, f"{part}_processor", None)
        self.processor = processor if own is None else own
        self.given = {**({} if own is None else _defaults(processor, f"{part}s_kwargs")), **given}

    @property
    def name(self) -> str:
        """The processor's class, as an error names it."""
        return type(self.processor).__name__

    def __call__(self, name: str, default: Any = None) -> Any:
        """One setting; what the call sets goes before what the processor has."""
        held = self.given.get(name)
        held = getattr(self.processor, name, None) if held is None else held
        return default if held is None else held

    def number(self, name: str) -> int:
        """A setting that there must be, as a whole number."""
        return int(self._needed(name))

    def side(self, name: str, side: str = "size") -> int | None:
        """One entry of a size, such as its ``shortest_edge``; None where the size has no such entry.

        A size is a mapping in a checkpoint's file, a record on the object, and a number in an old call.
        """
        held = self(side)
        if isinstance(held, int):
            square = bool(self("default_to_square", True)) or side != "size"
            held = {"height": held, "width": held} if square else {"shortest_edge": held}
        found = held.get(name) if isinstance(held, Mapping) else getattr(held, name, None)
        return int(found) if found else None

    def box(self, side: str = "size") -> tuple[int, int]:
        """Width and height that a size must have.

        Raises:
            InputError: It is of another kind.
        """
        width, height = self.side("width", side), self.side("height", side)
        if width is None or height is None:
            raise self.unsupported(side)
        return width, height

    def edge(self, name: str, side: str = "size") -> int:
        """One entry that a size must have."""
        found = self.side(name, side)
        if found is None:
            raise self.unsupported(side)
        return found

    def unsupported(self, name: str) -> InputError:
        """The error for a setting that these boxes do not undo."""
        return InputError(
            f"{self.name} is set to {name}={self(name)!r}, which these boxes do not undo; pass boxes of your own"
        )

    def _needed(self, name: str) -> Any:
        held = self(name)
        if held is None:
            raise self.unsupported(name)
        return held


def _defaults(processor: Any, part: str) -> dict[str, Any]:
    """What a whole processor asks of its image or video processor in every call."""
    kinds = getattr(type(processor), "valid_processor_kwargs", None)
    own = getattr(processor, part, None)
    asked = getattr(kinds, "_defaults", {}).get(part, {})
    made = PER_CALL[part].get(type(processor).__name__, lambda _: {})(processor)
    return {**(own if isinstance(own, Mapping) else {}), **asked, **made}


def _folded(processor: Any) -> dict[str, Any]:
    """Pixtral's: pictures of whole folds of patches."""
    side = processor.patch_size * processor.spatial_merge_size
    return {"patch_size": {"height": side, "width": side}}


#: What a processor works out anew for every call.
PER_CALL: Mapping[str, Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "images_kwargs": {"PixtralProcessor": _folded},
    "videos_kwargs": {},
}
