"""Frozen records: what a family's file says beside its tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

from belvedere.components import ImageScatter, Standard, Text, Vision

__all__ = [
    "ROOT_SCATTER",
    "Rows",
    "Wrapper",
    "by_ratio",
    "every_patch",
    "fixed",
    "folded",
    "pooled",
    "shuffled",
]

#: How many tiles and image tokens each picture of an encoding becomes, from the wrapper's config, the encoding, and the
#: patch rows and columns of one tile.
Tiled = Callable[[Any, Mapping[str, Any], int, int], list[tuple[int, int]]]
#: How the tiles of each picture lie in lines, `belvedere.families.tiling.Stitched`, from the same.
Lines = Callable[[Any, Mapping[str, Any], int, int], Sequence[Any]]
#: How many image tokens a picture becomes, from the wrapper's config, its patch rows and columns, the CLS rows kept.
Tokens = Callable[[Any, int, int, int], int]


def every_patch(config: Any, rows: int, columns: int, before: int) -> int:
    """One token for each patch, and for those of the rows before them that are kept."""
    return rows * columns + before


def folded(config: Any, rows: int, columns: int, before: int) -> int:
    """One token for each ``spatial_merge_size x spatial_merge_size`` block of patches."""
    return int((rows // config.spatial_merge_size) * (columns // config.spatial_merge_size))


def by_ratio(config: Any, rows: int, columns: int, before: int) -> int:
    """One token for each block of patches that a pixel shuffle lays side by side, by the wrapper's or tower's ratio."""
    ratio = getattr(config, "downsample_ratio", None) or config.vision_config.pixel_shuffle_ratio
    return int(rows * ratio) * int(columns * ratio)


def pooled(config: Any, rows: int, columns: int, before: int) -> int:
    """One token for each block of patches, of the side that the tower's config says."""
    side = config.vision_config.pooling_kernel_size
    return int((rows // side) * (columns // side))


def shuffled(name: str) -> Tokens:
    """One token for each square block of patches, whose side is a field of the wrapper's config."""

    def tokens(config: Any, rows: int, columns: int, before: int) -> int:
        side = int(getattr(config, name))
        return (rows // side) * (columns // side)

    return tokens


def fixed(name: str) -> Tokens:
    """As many tokens for every picture as a field of the wrapper's config says."""

    def tokens(config: Any, rows: int, columns: int, before: int) -> int:
        return int(attrgetter(name)(config))

    return tokens


#: For `Wrapper.inner`: the root's own forward writes the features in.
ROOT_SCATTER = ""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What the rows of a tower's patch axis are, around and among the patches themselves.

    Args:
        order: How a picture's patches follow each other: line by line, merge block by merge block (each ``merge x
            merge`` block together), or attention window by attention window.
        before: Rows ahead of the patches: CLS and registers.
        after: Rows behind the patches: CLS.
        packed: Whether every picture's patches are in one row.
        multiple: What the rows of a picture (or a tile) are padded to a multiple of, behind all others.
        whole: Whether a patch into which padding reaches counts as padding, where pictures are padded to the largest.
    """

    order: Literal["raster", "merge blocks", "windows"] = "raster"
    before: int = 0
    after: int = 0
    packed: bool = False
    multiple: int = 1
    whole: bool = False

    def around(self, patches: int) -> tuple[int, int]:
        """How many rows stand ahead of a picture's patches and behind them; none in a packed row."""
        if self.packed:
            return 0, 0
        return self.before, self.after + -(self.before + patches + self.after) % self.multiple


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """Where a wrapper hangs its parts, and where image features enter the text; the defaults hold for most.

    Args:
        text: The text stack's native path.
        tower: The tower's native path.
        projector: The native path of the last module before the features enter the text stream; ``None`` where nothing
            of the tower reaches it.
        lm_head: The unembedding's native path.
        inner: The module whose forward writes the features in, or `ROOT_SCATTER`.
        scatter: The envoy that knows how it does so; ``None`` where it does not.
        image_token: The config's name for the image placeholder's id.
        tokens: How many image tokens a picture becomes; ``None`` where that depends on more than its patches.
        tiled: The tiles and image tokens of each picture, where a picture is cut into tiles or several are stacked with
            padding between them; it is asked in place of ``tokens``.
        lines: How the image tokens of each picture's tiles lie in lines with newlines, where they do.
        video_scaled: The rows and columns of tokens that a video's frame is scaled to, from those of its patches, where
            it is; one newline follows the last frame.
        resampled: Whether every image token is made of all patches of its picture or tile.
        alike: How many tiles the processor cuts every picture into, where the prompt does not tell neighbours' tiles
            apart; ``tiled`` then counts the tiles of a run of pictures together.
        video_token: The config's name for the video placeholder's id; ``None`` where the model takes no video.
        feature_layers: The config's name for the tower blocks whose stream the wrapper takes, where it names any.
        normed: Whether the last of them means the stream after the tower's final norm.
        first_position: The position that the model gives a prompt's first token.
        counts_positions: Whether the model derives all positions from ids and mask, so that none may be given.
        forward: What the model's forward is called with unless a user says otherwise.
        no_generate: Why the model's own ``generate`` fails, where it does, whatever it is given.
        config: Fields that the forward needs in the checkpoint's config to run; set when it is loaded.
        by_prompt: Whether every prompt of a batch has as many pictures and tiles, so that all that is of pictures has
            its prompts first.
        merged: The projector's module whose input is the folded patches, by its path in the projector; empty where the
            projector folds none.
    """

    text: str = "model.language_model"
    tower: str = "model.vision_tower"
    projector: str | None = "model.multi_modal_projector"
    lm_head: str = "lm_head"
    inner: str = "model"
    scatter: type[ImageScatter] | None = ImageScatter
    image_token: str = "image_token_id"
    video_token: str | None = None
    feature_layers: str = "vision_feature_layer"
    normed: bool = False
    first_position: int = 0
    counts_positions: bool = False
    tokens: Tokens | None = every_patch
    tiled: Tiled | None = None
    lines: Lines | None = None
    video_scaled: Callable[[int, int], tuple[int, int]] | None = None
    resampled: bool = False
    alike: Callable[[Any], int] | None = None
    merged: str = ""
    by_prompt: bool = False
    forward: Mapping[str, Any] = field(default_factory=dict)
    no_generate: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


#: What a tower's entry has when it says nothing else.
DEFAULT_ROWS = Rows()
DEFAULT_TEXT: type[Standard] = Text
DEFAULT_TOWER: type[Standard] = Vision
