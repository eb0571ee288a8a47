"""What a processor really made of a picture: its output folded back into rectangles, by none of our own geometry."""

from functools import cache, partial
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from belvedere.testing import ROWS

PAN = {
    "do_pan_and_scan": True,
    "pan_and_scan_min_crop_size": 8,
    "pan_and_scan_max_num_crops": 3,
    "pan_and_scan_min_ratio_to_activate": 1.2,
}
SQUARE = {"height": 32, "width": 32}
#: Two greys, so far from black and white that no resize is cut off there.
DARK, LIGHT = 64, 192
#: What no row of the zoo has: the other backend, and settings that a checkpoint or a call may choose.
FURTHER: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "clip": ("CLIPImageProcessor", {"size": {"shortest_edge": 32}, "crop_size": SQUARE}, {}),
    "clip, by Pillow": ("CLIPImageProcessorPil", {"size": {"shortest_edge": 32}, "crop_size": SQUARE}, {}),
    "clip, no resize": ("CLIPImageProcessor", {"do_resize": False, "crop_size": {"height": 33, "width": 32}}, {}),
    "clip, no resize, by Pillow": (
        "CLIPImageProcessorPil",
        {"do_resize": False, "crop_size": {"height": 33, "width": 32}},
        {},
    ),
    "clip, two edges": (
        "CLIPImageProcessor",
        {"size": {"shortest_edge": 20, "longest_edge": 40}, "crop_size": SQUARE},
        {},
    ),
    "clip, within": (
        "CLIPImageProcessor",
        {"size": {"max_height": 30, "max_width": 40}, "do_center_crop": False, "do_pad": True},
        {"pad_size": {"height": 48, "width": 50}},
    ),
    "llava, padded": ("LlavaImageProcessor", {"size": {"shortest_edge": 32}, "crop_size": SQUARE, "do_pad": True}, {}),
    "llava, padded, by Pillow": (
        "LlavaImageProcessorPil",
        {"size": {"shortest_edge": 32}, "crop_size": SQUARE, "do_pad": True},
        {},
    ),
    "glmga": (
        "GlmgaImageProcessor",
        {"patch_size": 8, "patch_expand_factor": 2, "size": {"shortest_edge": 2048, "longest_edge": 16384}},
        {},
    ),
    "siglip2": ("Siglip2ImageProcessor", {"patch_size": 8, "max_num_patches": 24}, {}),
    "gemma3, panned": ("Gemma3ImageProcessor", {"size": SQUARE}, PAN),
    "gemma3, panned, by Pillow": ("Gemma3ImageProcessorPil", {"size": SQUARE}, PAN),
    "got_ocr2, by Pillow": ("GotOcr2ImageProcessorPil", {"size": SQUARE}, {"crop_to_patches": True, "max_patches": 4}),
    "llama4, largest canvas": (
        "Llama4ImageProcessor",
        {"size": SQUARE, "max_patches": 4},
        {"resize_to_max_canvas": True},
    ),
    "idefics2, split, by Pillow": (
        "Idefics2ImageProcessorPil",
        {"size": {"shortest_edge": 16, "longest_edge": 48}, "do_image_splitting": True},
        {},
    ),
    "llava_next, by Pillow": (
        "LlavaNextImageProcessorPil",
        {"size": {"shortest_edge": 32}, "crop_size": SQUARE, "image_grid_pinpoints": [[32, 64], [64, 32], [64, 96]]},
        {},
    ),
    "llava_next, other thumbnails": (
        "LlavaNextImageProcessor",
        {"size": {"shortest_edge": 40}, "crop_size": SQUARE, "image_grid_pinpoints": [[32, 64], [64, 32]]},
        {},
    ),
    "mllama, four tiles": ("MllamaImageProcessor", {"size": SQUARE, "max_image_tiles": 4}, {}),
    "lfm2_vl, no thumbnail": (
        "Lfm2VlImageProcessor",
        {"encoder_patch_size": 8, "tile_size": 32, "min_image_tokens": 4, "max_image_tokens": 16, "max_tiles": 4},
        {"use_thumbnail": False, "max_pixels_tolerance": 1.0},
    ),
}


def _makers() -> dict[str, tuple[Any, str]]:
    """Every processor of the zoo once, however many rows share it, and what stands for a picture in its prompts."""
    makers: dict[Any, tuple[str, tuple[Any, str]]] = {}
    for name, row in ROWS.items():
        for form, make in {"": row.processor, **row.forms}.items():
            if make is not None:
                plain = make if isinstance(make, partial) else partial(make)
                key = (plain.func, plain.args, tuple(plain.keywords.items()))
                makers.setdefault(key, (f"{name} {form}".strip(), (make, row.placeholder)))
    return dict(makers.values())


ZOO = _makers()
NAMES = [*ZOO, *FURTHER]


@cache
def made(name: str) -> tuple[Any, Any, dict[str, Any]]:
    """A processor as `pieces` takes it, its image processor, and what each call of that sets."""
    import transformers

    if name in ZOO:
        make, placeholder = ZOO[name]
        processor = make()
        return processor, processor.image_processor, _asked(processor, placeholder)
    kind, settings, call = FURTHER[name]
    processor = getattr(transformers, kind)(**settings)
    return processor, processor, call


def _asked(processor: Any, placeholder: str) -> dict[str, Any]:
    """What a whole processor really asks of its image processor."""
    kind, calls = type(processor.image_processor), []

    def recording(self: Any, images: Any, *args: Any, **given: Any) -> Any:
        calls.append(given)
        return kind.__call__(self, images, *args, **given)

    processor.image_processor.__class__ = type(kind.__name__, (kind,), {"__call__": recording})
    processor(images=[Image.fromarray(painted((60, 40)))], text=placeholder)
    processor.image_processor.__class__ = kind
    [call] = calls
    return {name: value for name, value in call.items() if name != "return_tensors"}


def stated(name: str) -> dict[str, Any]:
    """What `pieces` is told of a call: nothing where the whole processor says it."""
    return {} if name in ZOO else made(name)[2]


def seen(name: str, picture: np.ndarray) -> list[Tensor]:
    """The rectangles that a processor made of one picture, ``[height, width]``: 1 lighter where that is light.

    The first colour alone; what stands where the picture is dark, and where it is not shown, is always the same.
    """
    _, processor, call = made(name)
    encoded = processor([picture], return_tensors="pt", input_data_format="channels_last", **call)
    std = processor.image_std[0] if processor.do_normalize else 1.0
    return [one * std * 255 / (LIGHT - DARK) for one in folded(processor, encoded)]


def folded(processor: Any, encoded: Any) -> list[Tensor]:
    """The first colour of what a processor returned for one picture, whole rectangle by whole rectangle."""
    pixels = encoded["pixel_values"].float()
    if "image_grid_thw" in encoded:
        _, rows, columns = encoded["image_grid_thw"][0].tolist()
        if pixels.ndim == 4:  # Kimi's patches are pictures, row by row.
            return [_raster(pixels[:, 0], rows, columns)]
        patch, fold = processor.patch_size, processor.merge_size
        one = pixels.view(len(pixels), 3, -1, patch, patch)[:, 0, 0]
        one = one.view(rows // fold, columns // fold, fold, fold, patch, patch).transpose(1, 2)
        return [_raster(one.reshape(-1, patch, patch), rows, columns)]
    if "spatial_shapes" in encoded:
        shapes = encoded["spatial_shapes"].tolist()
        return [_raster(_last(one), rows, columns) for one, (rows, columns) in zip(pixels, shapes, strict=True)]
    if "image_position_ids" in encoded:
        columns, rows = (encoded["image_position_ids"][0].amax(0) + 1).tolist()
        return [_raster(_last(pixels[0]), rows, columns)]
    if "num_tiles" in encoded:  # Mllama fills up with empty tiles.
        pixels = pixels[0, 0, : encoded["num_tiles"][0][0]]
    return list(pixels.reshape(-1, *pixels.shape[-3:])[:, 0])


def _last(pixels: Tensor) -> Tensor:
    """The first colour of patches whose colours are last."""
    side = round((pixels.shape[-1] / 3) ** 0.5)
    return pixels.reshape(-1, side, side, 3)[..., 0]


def _raster(patches: Tensor, rows: int, columns: int) -> Tensor:
    side = patches.shape[-1]
    kept = patches[: rows * columns].view(rows, columns, side, side)
    return kept.transpose(1, 2).reshape(rows * side, columns * side).float()


def painted(size: tuple[int, int], box: tuple[int, int, int, int] | None = None) -> np.ndarray:
    """A dark picture of a width and a height, perhaps with a light box: neither so far that a resize is cut off."""
    picture = np.full((size[1], size[0], 3), DARK, dtype=np.uint8)
    if box:
        picture[box[1] : box[3], box[0] : box[2]] = LIGHT
    return picture
