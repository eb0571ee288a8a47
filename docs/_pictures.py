"""The pictures of the page "Where is this patch?": one for each tower, drawn while the pages are built.

Each is what `belvedere.plot.layout` draws of a tiny checkpoint's layout, made from its config and its own processor
without weights. The tiny processors have few and large patches, so that every number can be read.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from types import SimpleNamespace

import nnsight  # noqa: F401 - before any transformers model, which nnsight patches
import torch
from PIL import Image, ImageDraw

from belvedere import StandardizedTransformer, plot
from belvedere.geometry import PatchLayout
from belvedere.testing import ROWS

WIDE, LARGE = (480, 320), 3


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What is drawn for a tower.

    Args:
        row: The row of the zoo whose layout it is.
        says: What is special about it.
        size: Width and height of the picture.
    """

    row: str
    says: str
    size: tuple[int, int] = WIDE


PICTURES: dict[str, Picture] = {
    "clip_vision_model": Picture(
        row="llava",
        says="Row 0 is the CLS; the processor cuts the middle out, and the dark sides reach no patch.",
    ),
    "siglip_vision_model": Picture(
        row="gemma3",
        says="No CLS; the whole picture is stretched to a square, and four patches are averaged into a token.",
    ),
    "siglip2_vision_model": Picture(
        row="lfm2_vl",
        says="Two tiles and a thumbnail of another shape, which is padded to the tiles' number of rows.",
    ),
    "idefics2_vision": Picture(
        row="idefics2", says="The picture keeps its shape; a resampler makes every token of all patches."
    ),
    "idefics3_vision": Picture(
        row="idefics3",
        says="Four tiles, row by row, and the thumbnail behind them; rows follow each other within a tile.",
    ),
    "smolvlm_vision": Picture(row="smolvlm", says="As Idefics 3's, here with a picture of two tiles.", size=(480, 240)),
    "internvl_vision": Picture(
        row="internvl", says="Each tile has a CLS of its own ahead of its patches, and so has the thumbnail."
    ),
    "llama4_vision_model": Picture(
        row="llama4", says="Padded at the right to two whole tiles; the CLS stands behind each tile's patches."
    ),
    "mllama_vision_model": Picture(
        row="mllama",
        says="Both tiles in one row of the tower, padded to a multiple of eight; the text attends to it, so that "
        "there are no image tokens.",
    ),
    "pixtral": Picture(row="mistral3", says="All pictures in one row, line by line; four patches make a token."),
    "kimi_k25_vision": Picture(
        row="kimi_k25",
        says="Small pictures are not enlarged but padded at the right and at the bottom to whole tokens.",
        size=(72, 41),
    ),
    "gemma4_vision": Picture(
        row="gemma4", says="Scaled to a budget of patches; the rest of the tower's rows are padding."
    ),
    "gemma4_unified_vision": Picture(row="gemma4_unified", says="No blocks: each patch is a token."),
    "qwen2_vl_vision": Picture(
        row="qwen2_vl", says="The four patches that are folded into a token are neighbours in the row."
    ),
    "qwen2_5_vl_vision": Picture(
        row="qwen2_5_vl",
        says="Rows go window by window, and in a window fold by fold; the tokens are back in reading order.",
    ),
    "qwen2_5_omni_vision_encoder": Picture(
        row="qwen2_5_omni_thinker",
        says="Windows as Qwen2.5-VL's; where a side is no multiple of a window's, the last are smaller.",
        size=(480, 360),
    ),
    "qwen3_vl_vision": Picture(row="qwen3_vl", says="Qwen2-VL's order, here of an upright picture.", size=(280, 420)),
    "qwen3_vl_moe_vision": Picture(row="qwen3_vl_moe", says="Qwen3-VL's, of a square picture.", size=(360, 360)),
    "qwen3_5_vision": Picture(row="qwen3_5", says="Qwen2-VL's order."),
    "qwen3_5_moe_vision": Picture(row="qwen3_5_moe", says="Qwen3.5's, of a wide picture.", size=(480, 160)),
    "glm4v_vision": Picture(row="glm4v", says="Qwen2-VL's order; a convolution folds the patches."),
    "glm4v_moe_vision": Picture(row="glm4v_moe", says="GLM-4V's, of an upright picture.", size=(280, 420)),
    "glm_ocr_vision": Picture(row="glm_ocr", says="GLM-4V's, of a long strip.", size=(480, 120)),
}

#: Wrappers that bring a picture to a tower in a way of their own.
FURTHER: dict[str, Picture] = {
    "llava_next": Picture(
        row="llava_next",
        says="CLIP over padded tiles, the thumbnail first; lines of padding alone become no token, and a newline ends "
        "each other line.",
    ),
    "llava_onevision": Picture(
        row="llava_onevision", says="SigLIP over padded tiles, here of an upright picture.", size=(280, 420)
    ),
    "deepseek_vl": Picture(
        row="deepseek_vl", says="SigLIP over a picture that is padded to a square, above and below."
    ),
}


def scene(size: tuple[int, int]) -> Image.Image:
    """A landscape of any size: a house with a chimney, a tree, a sun, two hills and a road."""
    width, height = size[0] * LARGE, size[1] * LARGE
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    unit = min(width / WIDE[0], height / WIDE[1])

    def at(*places: float) -> list[tuple[float, float]]:
        return [(x * width, y * height) for x, y in zip(places[::2], places[1::2], strict=True)]

    def near(x: float, y: float, *places: float) -> list[tuple[float, float]]:
        """Of an object that keeps its shape, in pixels from its foot."""
        return [(x * width + a * unit, y * height + b * unit) for a, b in zip(places[::2], places[1::2], strict=True)]

    for line in range(height):
        depth = line / height
        draw.line([(0, line), (width, line)], fill=(round(90 + 120 * depth), round(160 + 70 * depth), 235))
    draw.ellipse(near(0.86, 0.17, -29, -29, 29, 29), fill=(255, 214, 70))
    draw.ellipse(at(-0.25, 0.52, 0.6, 1.3), fill=(96, 150, 84))
    draw.ellipse(at(0.35, 0.58, 1.3, 1.4), fill=(70, 122, 66))
    draw.polygon(at(0.44, 1, 0.56, 1, 0.4, 0.72, 0.37, 0.72), fill=(200, 186, 150))
    house, tree = (0.22, 0.78), (0.715, 0.86)
    draw.rectangle(near(*house, 18, -186, 38, -115), fill=(120, 60, 50))
    draw.polygon(near(*house, -77, -102, 0, -180, 77, -102), fill=(160, 48, 40))
    draw.rectangle(near(*house, -58, -102, 58, 0), fill=(238, 226, 200))
    draw.rectangle(near(*house, -14, -64, 14, 0), fill=(94, 62, 40))
    for left in (-47, 27):
        draw.rectangle(near(*house, left, -82, left + 20, -50), fill=(60, 90, 130))
    draw.rectangle(near(*tree, -10, -115, 10, 0), fill=(92, 64, 40))
    for left, top in ((-56, -180), (-8, -172), (-32, -218)):
        draw.ellipse(near(*tree, left, top, left + 67, top + 90), fill=(40, 92, 50))
    return image.resize(size, Image.Resampling.LANCZOS)


@cache
def placed(name: str, size: tuple[int, int] = WIDE) -> tuple[StandardizedTransformer, PatchLayout]:
    """The model of a row of the zoo, without weights, and the layout of the scene."""
    row, image = ROWS[name], scene(size)
    with warnings.catch_warnings():
        # Of the processors' own use of NumPy.
        warnings.simplefilter("ignore")
        model = StandardizedTransformer.from_config(row.config())
        if row.processor is None:
            return model, _by_pixels(model, image)
        model.processor = row.processor()
        return model, model.layout(f"{row.placeholder} ?", images=[image])


def _by_pixels(model: StandardizedTransformer, image: Image.Image) -> PatchLayout:
    """For SmolVLM, whose processor needs a package to spell numbers: by its image processor alone."""
    import transformers

    pixels = transformers.SmolVLMImageProcessor(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    model.processor = SimpleNamespace(image_processor=pixels)
    seen = pixels([image], return_tensors="pt")
    tokens = 4 * seen["pixel_values"].shape[1]
    ids = torch.full((1, tokens), model.placeholder("image"))
    return model.layout({"input_ids": ids, **seen}, sizes=[image.size])


@cache
def drawn(name: str) -> bytes:
    """A tower's or a wrapper's picture as a PNG file."""
    picture = {**PICTURES, **FURTHER}[name]
    _, layout = placed(picture.row, picture.size)
    held = BytesIO()
    plot.layout(layout, scene(picture.size)).savefig(held, format="png", dpi=100, bbox_inches="tight", pad_inches=0.05)
    return held.getvalue()
