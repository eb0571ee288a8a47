"""A tower's sizes, known without a run."""

from __future__ import annotations

from typing import Any

from belvedere.errors import Unavailable

__all__ = ["TowerSizes"]


class TowerSizes:
    """Sizes that a tower's config gives.

    Attributes:
        layers: The tower's blocks.
        root: The model that the tower belongs to.
        config: The tower's config.
    """

    layers: Any
    root: Any
    config: Any

    @property
    def num_layers(self) -> int:
        """How many blocks the tower has."""
        return len(self.layers)

    @property
    def vision_hidden_size(self) -> int:
        """The width of the tower's stream."""
        return int(self.config.hidden_size)

    @property
    def num_heads(self) -> int:
        """How many heads each block has."""
        return int(self.config.num_attention_heads)

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return int(getattr(self.config, "head_dim", None) or self.vision_hidden_size // self.num_heads)

    @property
    def intermediate_size(self) -> int:
        """The inner width of each block's MLP."""
        return int(self.config.intermediate_size)

    @property
    def patch_size(self) -> int:
        """The side of a square patch, in pixels."""
        size = self.config.patch_size
        return int(size if isinstance(size, int) else size[0])

    @property
    def image_size(self) -> int:
        """The side of the square pictures that the tower takes, in pixels."""
        size = getattr(self.config, "image_size", None)
        if size is None:
            raise Unavailable(
                "vision.image_size",
                "this tower takes pictures of any resolution; each one's patch grid is in the encoding, image_grid_thw "
                "or spatial_shapes",
            )
        return int(size if isinstance(size, int) else size[0])

    @property
    def spatial_merge_size(self) -> int:
        """How many patches a side are folded into one image token; 1 where none are."""
        ratio = getattr(self.config, "pixel_shuffle_ratio", getattr(self.root.source_config, "downsample_ratio", 1))
        return int(getattr(self.config, "spatial_merge_size", round(1 / ratio)))

    @property
    def window_size(self) -> int:
        """The side of an attention window, in pixels."""
        size = getattr(self.config, "window_size", None)
        if size is None:
            raise Unavailable("vision.window_size", "this tower's attention has no windows; see segments")
        return int(size)
