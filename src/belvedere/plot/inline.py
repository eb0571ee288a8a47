"""A figure in a page: a PNG file in the text itself, of bounded size."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inlined", "small_png"]

#: Bytes of a file, which are a third more as text.
MOST = 200_000
#: Dots per inch, from what is best to what is small.
DOTS = (110, 80, 55, 40, 28, 20)


def small_png(figure: Figure, most: int = MOST) -> bytes:
    """A figure as a PNG file that is no larger than it may be: in fewer colours, and then of fewer dots, where it must.

    Args:
        figure: The figure.
        most: The most bytes; the last resort is kept to as well as it can.
    """
    made = b""
    for dots in DOTS:
        held = BytesIO()
        figure.savefig(held, format="png", dpi=dots)
        made = held.getvalue()
        if len(made) > most:
            made = _in_few_colours(held)
        if len(made) <= most:
            break
    return made


def inlined(figure: Figure, alt: str, most: int = MOST) -> str:
    """A figure as the tag of a picture that needs no other file.

    Args:
        figure: The figure.
        alt: What a reader is told who does not see it.
        most: The most bytes of the file.
    """
    from html import escape

    data = b64encode(small_png(figure, most)).decode()
    return f'<img style="max-width: 100%" alt="{escape(alt, quote=True)}" src="data:image/png;base64,{data}">'


def _in_few_colours(held: BytesIO) -> bytes:
    smaller = BytesIO()
    with Image.open(held) as opened:
        opened.convert("RGB").quantize(255).save(smaller, format="png", optimize=True)
    return smaller.getvalue()
