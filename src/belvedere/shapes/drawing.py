"""How a picture is drawn: a noisy grey ground, specks and lines that mean nothing, and flat coloured objects.

All randomness comes from one integer seed through `random.Random`, and all drawing is Pillow's integer arithmetic, so
a seed gives the same pixels on every machine. An object touches no pixel outside its box.
"""

import math
import random
from functools import cache

from PIL import Image, ImageChops, ImageDraw

Box = tuple[int, int, int, int]
Color = tuple[int, int, int]

_SHARPNESS = 4  # outlines are drawn this much larger, then averaged down
_NOISE = 12  # peak-to-peak, in levels of 255

# Corners in a unit square; the circle is a polygon too, fine enough for any size that is drawn.
_OUTLINES = {
    "square": ((0, 0), (1, 0), (1, 1), (0, 1)),
    "triangle": ((0.5, 0), (1, 1), (0, 1)),
    "diamond": ((0.5, 0), (1, 0.5), (0.5, 1), (0, 0.5)),
    "cross": tuple(
        (x / 3, y / 3)
        for x, y in [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (2, 2), (2, 3), (1, 3), (1, 2), (0, 2), (0, 1), (1, 1)]
    ),
    "circle": tuple(
        (0.5 + 0.5 * math.cos(math.tau * step / 64), 0.5 + 0.5 * math.sin(math.tau * step / 64)) for step in range(64)
    ),
}


@cache
def _stencil(shape: str, side: int) -> Image.Image:
    """How much of each pixel the shape covers, 0 to 255."""
    large = side * _SHARPNESS
    stencil = Image.new("L", (large, large))
    corners = [(round(x * (large - 1)), round(y * (large - 1))) for x, y in _OUTLINES[shape]]
    ImageDraw.Draw(stencil).polygon(corners, fill=255)
    return stencil.reduce(_SHARPNESS)


def paint(image: Image.Image, shape: str, color: Color, box: Box) -> None:
    """Put one object on the image."""
    image.paste(color, box, _stencil(shape, box[2] - box[0]))


def ground(size: tuple[int, int], color: Color, seed: int) -> Image.Image:
    """The picture before any object is on it."""
    rng = random.Random(seed)
    width, height = size
    image = Image.new("RGB", size, color)
    noise = Image.frombytes("L", size, rng.randbytes(width * height)).point([v * _NOISE // 256 for v in range(256)])
    image = Image.merge("RGB", [ImageChops.add(band, noise) for band in image.split()])
    _distract(ImageDraw.Draw(image), size, color, rng)
    return image


def _distract(draw: ImageDraw.ImageDraw, size: tuple[int, int], color: Color, rng: random.Random) -> None:
    """Specks of any colour and faint lines."""
    width, height = size
    for _ in range(rng.randrange(3)):
        faint = tuple(level + rng.choice((-40, 40)) for level in color)
        ends = [(rng.randrange(width), rng.randrange(height)) for _ in range(2)]
        draw.line(ends, fill=faint)
    for _ in range(rng.randrange(5)):
        x, y = rng.randrange(width - 1), rng.randrange(height - 1)
        draw.rectangle((x, y, x + 1, y + 1), fill=tuple(rng.randrange(256) for _ in range(3)))
