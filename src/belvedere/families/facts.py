"""Frozen records: what a family's file says beside its tables."""

from dataclasses import dataclass

from belvedere.components import ImageScatter, Standard, Vision

__all__ = ["Rows", "Wrapper"]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What the rows of a tower's patch axis are, around and among the patches themselves.

    Args:
        before: Rows ahead of the patches: CLS and registers.
        packed: Whether every picture's patches are in one row.
    """

    before: int = 0
    packed: bool = False


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """Where a wrapper hangs its parts, and where image features enter the text; the defaults hold for most.

    Args:
        text: The text stack's native path.
        tower: The tower's native path.
        projector: The native path of the last module before the features enter the text stream; ``None`` where nothing
            of the tower reaches it.
        lm_head: The unembedding's native path.
        inner: The module whose forward writes the features in.
        scatter: The envoy that knows how it does so; ``None`` where it does not.
        image_token: The config's name for the image placeholder's id.
        video_token: The config's name for the video placeholder's id; ``None`` where the model takes no video.
    """

    text: str = "model.language_model"
    tower: str = "model.vision_tower"
    projector: str | None = "model.multi_modal_projector"
    lm_head: str = "lm_head"
    inner: str = "model"
    scatter: type[ImageScatter] | None = ImageScatter
    image_token: str = "image_token_id"
    video_token: str | None = None


#: What a tower's entry has when it says nothing else.
DEFAULT_ROWS = Rows()
DEFAULT_TOWER: type[Standard] = Vision
