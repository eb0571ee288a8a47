"""Self-contained pages: a template, its data, and every picture inside the file."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inlined", "page", "png"]

DPI = 130


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("belvedere.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(template: str, **data: Any) -> str:
    """A page from a template of this package.

    Args:
        template: The template's file name.
        **data: What it shows; text is escaped.
    """
    return _templates().get_template(template).render(**data)


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    held = BytesIO()
    figure.savefig(held, format="png", dpi=DPI)
    return held.getvalue()


def inlined(image: bytes) -> str:
    """The bytes of a PNG file as an address that a page can show without another file."""
    return f"data:image/png;base64,{b64encode(image).decode()}"
