"""What an image processor makes of a picture: the rectangles that a tower takes, each with its way back.

A processor is known by the class that wrote its work, so that one derived without changes is known too and one that
does something else is not taken for its parent. What it does is a chain of resizes and windows, read from its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from belvedere.errors import InputError
from belvedere.geometry import budgets, resizing
from belvedere.geometry.piece import Piece, whole
from belvedere.geometry.settings import Settings
from belvedere.geometry.steps import bounds, cropped_centre, grown, plain, resized, squared
from belvedere.geometry.tilings import TILINGS
from belvedere.geometry.videos import VIDEOS

__all__ = ["pieces"]

Size = tuple[int, int]
Kind = Callable[[Settings, Size], list[Piece]]


def pieces(
    processor: Any,
    size: Size,
    /,
    *,
    batch: Sequence[Size] = (),
    alone: bool = True,
    frames: int | None = None,
    **settings: Any,
) -> list[Piece]:
    """The rectangles of pixels that a processor makes of one picture, in the order of ``pixel_values``.

    ::

        for piece in pieces(model.processor, image.size):
            boxes = piece.view.boxes(cell_boxes(rows, columns, piece.size))

    Args:
        processor: A model's processor, or its image processor alone. The whole one also knows what it asks of the
            image processor in every call, such as InternVL's tiles.
        size: Width and height of the original picture.
        batch: The sizes of all pictures of the call, this one's too, where there are several; some processors pad
            each picture to the largest.
        alone: Whether the picture is its prompt's only one; LLaVA-OneVision cuts no other.
        frames: How many frames the video processor keeps, where this is the size of a video's and not of a picture:
            then what is returned is what becomes of each frame.
        **settings: What the call sets otherwise than the processor, such as ``do_image_splitting``.

    Returns:
        One piece for each tile and thumbnail, or for the picture; without the empty tiles that fill up a batch.

    Raises:
        InputError: The processor, or one of its settings, is not known here; or it takes no picture of this size.
    """
    read = Settings(processor, {**settings, "alone": alone, "frames": frames})
    kind = _known(read)
    made = kind(read, size)
    if not _pads(read):
        return made
    every = [piece.size for other in (size, *batch) for piece in kind(read, other)]
    canvas = read.box("pad_size") if read("pad_size") else (max(one[0] for one in every), max(one[1] for one in every))
    return [piece.padded(canvas) for piece in made]


def _llava(read: Settings, size: Size) -> list[Piece]:
    """LLaVA's: as CLIP's, and perhaps padded to a square first."""
    picture = whole(size)
    return [cropped_centre(read, resized(read, squared(picture) if read("do_pad") else picture))]


def _pixtral(read: Settings, size: Size) -> list[Piece]:
    """Pixtral's: no side above the longest edge, then up to whole patches."""
    if not read("do_resize"):
        return [cropped_centre(read, whole(size))]
    longest = read.side("longest_edge")
    most = read.box() if longest is None else (longest, longest)
    patch = read.box("patch_size")
    ratio = max(size[1] / most[1], size[0] / most[0])
    kept = (int(size[0] / ratio), int(size[1] / ratio)) if ratio > 1 else size
    width, height = (((side - 1) // cell + 1) * cell for side, cell in zip(kept, patch, strict=True))
    return [cropped_centre(read, whole(size).resized((width, height)))]


def _qwen(read: Settings, size: Size) -> list[Piece]:
    """Qwen's: whole folds of patches, between two numbers of pixels."""
    if not read("do_resize"):
        return [whole(size)]
    return [whole(size).resized(budgets.packed(size, *bounds(read)))]


def _glm(read: Settings, size: Size) -> list[Piece]:
    """GLM's: as Qwen's, counting the pixels of a frame and its copies, after a small picture has grown."""
    if not read("do_resize"):
        return [whole(size)]
    return [whole(size).resized(grown(read, size, read.number("temporal_patch_size")))]


def _deepseek(read: Settings, size: Size) -> list[Piece]:
    """DeepSeek-VL's: the longer side fits, and the picture stands in the middle of a square."""
    picture = whole(size)
    if read("do_resize"):
        picture = picture.resized(resizing.fitted(size, read.box()[1], read.number("min_size")))
    return [squared(picture) if read("do_pad") else picture]


def _kimi(read: Settings, size: Size) -> list[Piece]:
    """Kimi K2.5's: shrunk where it is too large, then padded to whole folds of patches."""
    if not read("do_resize"):
        return [whole(size)]
    patch, most = read.number("patch_size"), read.number("max_patches")
    picture = whole(size).resized(budgets.shrunk(size, patch, most, read.edge("max_height")))
    factor = patch * read.number("merge_size")
    width, height = (-(-side // factor) * factor for side in picture.size)
    return [picture.padded((width, height))]


def _gemma4(read: Settings, size: Size) -> list[Piece]:
    """Gemma 4's: as many pooled patches as its tokens allow."""
    if not read("do_resize"):
        return [whole(size)]
    patch, pool = read.number("patch_size"), read.number("pooling_kernel_size")
    return [whole(size).resized(budgets.soft(size, patch, pool, read.number("max_soft_tokens") * pool**2))]


def _siglip2(read: Settings, size: Size) -> list[Piece]:
    """SigLIP 2's: as many patches as it may have."""
    if not read("do_resize"):
        return [whole(size)]
    return [whole(size).resized(budgets.budgeted(size, read.number("patch_size"), read.number("max_num_patches")))]


#: By the class that wrote the work, without the ending of its backend.
KINDS: Mapping[str, Kind] = {
    "DeepseekVLImageProcessor": _deepseek,
    "Gemma4ImageProcessor": _gemma4,
    "Gemma4UnifiedImageProcessor": _gemma4,
    "Glm46VImageProcessor": _glm,
    "Glm4vImageProcessor": _glm,
    "Kimi_K25ImageProcessor": _kimi,
    "LlavaImageProcessor": _llava,
    "GlmgaImageProcessor": _glm,
    "PilBackend": plain,
    "PixtralImageProcessor": _pixtral,
    "Qwen2VLImageProcessor": _qwen,
    "Siglip2ImageProcessor": _siglip2,
    "TorchvisionBackend": plain,
    **TILINGS,
    **VIDEOS,
}
#: Those that pad every picture of a call to the largest one.
PADDED = {
    *("Idefics2ImageProcessor", "Idefics3ImageProcessor", "SmolVLMImageProcessor", "PixtralImageProcessor"),
    *("PilBackend", "TorchvisionBackend"),
}
#: What a class that writes work of its own writes at least one of.
WORK = {"_preprocess", "center_crop", "pad", "resize"}


def _author(read: Settings) -> str:
    """The class that wrote the work of a processor, without the ending of its backend."""
    for kind in type(read.processor).__mro__:
        if WORK & vars(kind).keys():
            return kind.__name__.removesuffix("Pil")
    return read.name


def _known(read: Settings) -> Kind:
    kind = KINDS.get(_author(read))
    if kind is None:
        known = ", ".join(sorted(name for name in KINDS if name.endswith("Processor") and name != "BaseVideoProcessor"))
        raise InputError(
            f"what {read.name} does to a picture is not known; pass boxes of your own. "
            f"Known are those of transformers that resize and crop and nothing else, and {known}"
        )
    return kind


def _pads(read: Settings) -> bool:
    return _author(read) in PADDED and bool(read("do_pad"))
