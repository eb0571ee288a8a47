"""What a staged tower is given, made into what the wrapper is called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from belvedere.errors import InputError

__all__ = ["Cut", "Source"]

PIXELS, VIDEOS, GRID = "pixel_values", "pixel_values_videos", "image_grid_thw"
#: What an encoding calls the grid of its pictures, in the order in which one given by position is taken.
GRIDS = (GRID, "image_sizes", "spatial_shapes", "image_position_ids", "aspect_ratio_ids", "pixel_attention_mask")
#: Grids that no forward does without.
NEEDED = (GRID, "video_grid_thw", "image_position_ids", "video_position_ids")
FORMS = "pixel values (with their grid), an encoding (`embed(**encoding)`), or a list of pictures"


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How a packed tower's pictures are cut into patches.

    Args:
        side: The side of a patch, in pixels.
        merge: How many patches a side are folded into one image token.
        frames: How many frames are in one patch.
        flat: Whether a patch is one row of numbers, in merge-block order, rather than a small picture in raster order.
    """

    side: int
    merge: int
    frames: int = 1
    flat: bool = True

    def __call__(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Patches and grid of whole pictures ``[images, channels, height, width]``.

        Raises:
            InputError: A side is no multiple of what one image token covers.
        """
        images, channels, height, width = pixels.shape
        block = self.side * self.merge
        if height % block or width % block:
            raise InputError(
                f"pictures of {height} x {width} pixels cannot be cut into image tokens of {block} x {block}; "
                "resize them to a multiple, or pass what the processor makes of them"
            )
        rows, columns = height // self.side, width // self.side
        grid = torch.tensor([[1, rows, columns]] * images, device=pixels.device)
        if not self.flat:
            cut = pixels.reshape(images, channels, rows, self.side, columns, self.side)
            return cut.permute(0, 2, 4, 1, 3, 5).flatten(0, 2), grid
        merge, side = self.merge, self.side
        cut = pixels.reshape(images, channels, rows // merge, merge, side, columns // merge, merge, side)
        # [images, channels, rows, merge, side, columns, merge, side] to one row a patch, its frames all alike.
        cut = cut.permute(0, 2, 5, 3, 6, 1, 4, 7).unsqueeze(6)
        return cut.expand(*cut.shape[:6], self.frames, *cut.shape[7:]).flatten(5).flatten(0, 4), grid


@dataclass(frozen=True, kw_only=True)
class Source:
    """What makes features of pixels, and what it may be given.

    Args:
        images: The wrapper's method for pictures, or the tower itself.
        videos: The wrapper's method for videos, where what it makes is what is written over their placeholders.
        prepare: Makes an encoding of a list of pictures.
        cut: Cuts whole pictures into patches, where the tower takes patches.
    """

    images: Callable[..., Any]
    prepare: Callable[[list[Any]], Mapping[str, Any]]
    videos: Callable[..., Any] | None = None
    cut: Cut | None = None

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """What the method makes of its keywords."""
        return self._method(given)(**given, return_dict=True)

    def keywords(self, pixels: Any, grid: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the method is called with; what of an encoding is the text's is left out.

        Args:
            pixels: Pixel values, an encoding, a list of pictures, or ``None``.
            grid: What an encoding says of the pictures' sizes, where pixels are given by position.
            given: An encoding's fields.

        Raises:
            InputError: It is none of these, or the method needs more.
        """
        encoding = self._encoding(pixels, grid, given)
        if self.cut is not None and _is_whole(encoding, self.cut):
            encoding[PIXELS], encoding[GRID] = self.cut(encoding[PIXELS])
        whole = next((encoding[name] for name in (PIXELS, VIDEOS) if isinstance(encoding.get(name), Tensor)), None)
        if whole is not None and not whole.is_floating_point():
            raise InputError(
                f"the pixel values are of {whole.dtype}, and a tower takes them rescaled and normalised; pass what the "
                "processor makes of the pictures, or the pictures themselves"
            )
        parameters = inspect.signature(self._method(encoding)).parameters
        taken = {name: held for name, held in encoding.items() if name in parameters and held is not None}
        needed = [name for name, one in parameters.items() if name not in taken and _is_needed(name, one)]
        if needed:
            raise InputError(
                f"this tower needs {', '.join(needed)} beside {', '.join(taken)}; pass them by name "
                f"(`embed({', '.join(f'{name}=...' for name in [*taken, *needed])})`), or an encoding"
            )
        return taken

    def _method(self, given: Mapping[str, Any]) -> Callable[..., Any]:
        return self.images if self.videos is None or given.get(VIDEOS) is None else self.videos

    def _encoding(self, pixels: Any, grid: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """An encoding of whatever was given."""
        if isinstance(pixels, Mapping):
            pixels, given = None, {**pixels, **given}
        if pixels is None:
            return self._checked(given)
        if given.get(PIXELS) is not None:
            raise InputError(f"the pixels came both by position and as `{PIXELS}=`; pass them once")
        if not isinstance(pixels, Tensor):
            if grid is not None:
                raise InputError("pictures have their grid from the processor; pass `grid` with pixel values only")
            shown = list(pixels) if isinstance(pixels, (list, tuple)) else [pixels]
            if not shown:
                raise InputError(f"nothing to embed, the list of pictures is empty; pass {FORMS}")
            return {**self.prepare(shown), **given}
        if grid is None:
            return {**given, PIXELS: pixels}
        return {**given, PIXELS: pixels, _grid_name(self.images): torch.as_tensor(grid)}

    def _checked(self, encoding: Mapping[str, Any]) -> dict[str, Any]:
        """An encoding that shows pictures or a video, and not both."""
        images, videos = (encoding.get(name) is not None for name in (PIXELS, VIDEOS))
        if images and videos:
            raise InputError(f"the encoding shows pictures and a video; leave out `{PIXELS}` or `{VIDEOS}`")
        if videos and self.videos is None:
            raise InputError("what becomes of a video is not this wrapper's method alone; embed its frames as pictures")
        if not images and not videos:
            raise InputError(f"nothing to embed; pass {FORMS}")
        return dict(encoding)


def _is_needed(name: str, parameter: inspect.Parameter) -> bool:
    """Whether a method needs an argument; a grid is needed although transformers gives it a default."""
    if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        return False
    return parameter.default is parameter.empty or name in NEEDED


def _grid_name(source: Callable[..., Any]) -> str:
    """What the method calls the grid.

    Raises:
        InputError: It takes none.
    """
    names = [name for name in GRIDS if name in inspect.signature(source).parameters]
    if not names:
        raise InputError("this tower takes pictures of one size, and no grid; pass the pixel values alone")
    return names[0]


def _is_whole(encoding: Mapping[str, Any], cut: Cut) -> bool:
    """Whether the pixels are whole pictures, and not patches: four axes, and no grid where patches have four too."""
    pixels = encoding.get(PIXELS)
    return isinstance(pixels, Tensor) and pixels.ndim == 4 and (cut.flat or encoding.get(GRID) is None)
