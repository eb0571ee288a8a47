"""Where the patches and image tokens of the running input are, asked of the tower that they pass."""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent

from belvedere.errors import Unavailable
from belvedere.geometry import PatchLayout

__all__ = ["Located"]


class Located:
    """The layouts of a tower's input.

    Attributes:
        interleaver: What runs the trace.
    """

    interleaver: Any

    def no_images(self) -> str | None:
        """Why no picture reaches this tower; ``None`` where one does."""
        raise NotImplementedError

    @property
    def layout(self) -> PatchLayout:
        """Where the running input's patches and image tokens are; outside a trace it is ``model.layout(prompt, ...)``.

        Raises:
            Unavailable: No input is running, or no picture reaches this tower.
        """
        return self._layout("layout", "pictures", "images=[picture]")

    @property
    def video_layout(self) -> PatchLayout:
        """Where the running video's patches and tokens are; outside a trace it is ``model.video_layout(prompt, ...)``.

        Raises:
            Unavailable: No input is running, or no picture reaches this tower.
        """
        return self._layout("video_layout", "videos", "videos=[video]")

    def _layout(self, name: str, of: str, keyword: str) -> PatchLayout:
        if (reason := self.no_images()) is not None:
            raise Unavailable(f"vision.{name}", reason)
        known = getattr(self.interleaver.batcher, "layout", None)
        if known is None or getattr(getcurrent(), "mediator", None) is None:
            raise Unavailable(f"vision.{name}", f"no input is running; call model.{name}(prompt, {keyword})")
        found: PatchLayout = known(of)
        return found
