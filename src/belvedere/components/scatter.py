"""Where image features enter the text stream: an operation in the forward of the wrapper's inner module."""

from __future__ import annotations

from typing import Any, ClassVar

from belvedere.components.standard import Standard

__all__ = ["ImageAndVideoScatter", "ImageScatter", "MergerScatter", "RootScatter", "SoundFirstScatter"]


class ImageScatter(Standard):
    """The module whose forward writes the image features over the placeholders' embeddings.

    The values themselves are the tower's (`belvedere.components.Vision`), served at this operation's arguments. The
    forward is under way before the tower runs, so it is bracketed when the tree is built.

    Attributes:
        scatter: The operation that writes image features in, named as in `belvedere.operations`.
        scatter_argument: Which argument of it is the features, by its place.
        scatter_keyword: The same argument's name, where it is passed by keyword.
        video_scatter: The operation for videos; empty where the model takes none.
    """

    scatter: ClassVar[str] = "inputs_embeds.masked_scatter()"
    scatter_argument: ClassVar[int] = 1
    scatter_keyword: ClassVar[str] = ""
    video_scatter: ClassVar[str] = ""

    @classmethod
    def operations(cls) -> tuple[str, ...]:
        """The operations that are bracketed."""
        return tuple(name for name in (cls.scatter, cls.video_scatter) if name)


class MergerScatter(ImageScatter):
    """A wrapper that writes images by a method of its own (Idefics 2 and 3)."""

    scatter = "self.inputs_merger()"
    scatter_argument = 2
    scatter_keyword = "image_hidden_states"


class ImageAndVideoScatter(ImageScatter):
    """A wrapper that writes images first and videos second, by the same operation."""

    video_scatter = "inputs_embeds.masked_scatter()[1]"


class SoundFirstScatter(ImageScatter):
    """A wrapper that writes sounds first, images second and videos third, by the same operation."""

    scatter = "inputs_embeds.masked_scatter()[1]"
    video_scatter = "inputs_embeds.masked_scatter()[2]"


#: What an `ImageScatter` says of its operations.
_SETTINGS = frozenset({"scatter", "scatter_argument", "scatter_keyword", "video_scatter"})


class RootScatter:
    """What stands for an `ImageScatter` where the wrapper writes the features in the root's own forward (Llama 4).

    Args:
        root: The root, which brackets the operations.
        kind: The component that names them.
    """

    def __init__(self, root: Any, kind: type[ImageScatter]) -> None:
        self._root, self.kind = root, kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kind if name in _SETTINGS else self._root, name)
