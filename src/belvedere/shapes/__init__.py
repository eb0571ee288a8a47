"""Two small trained checkpoints that ship with the package, and the scenes of coloured shapes they answer about."""

from pathlib import Path

from belvedere.shapes.scenes import HELD_OUT, Object, Picture, Scene, pair, sample
from belvedere.shapes.vocabulary import COLORS, KINDS, SHAPES, SIZES, STYLES, style_of

CHECKPOINTS = tuple(STYLES)

__all__ = [
    "CHECKPOINTS",
    "COLORS",
    "HELD_OUT",
    "KINDS",
    "SHAPES",
    "SIZES",
    "STYLES",
    "Object",
    "Picture",
    "Scene",
    "checkpoint",
    "pair",
    "sample",
]


def checkpoint(name: str) -> Path:
    """The folder of a trained checkpoint, for any `from_pretrained`.

    Args:
        name: `shapes-llava` or `shapes-qwen3_5`.

    Returns:
        The folder, inside the installed package.

    Raises:
        ValueError: No checkpoint has that name; the message lists those that do.
    """
    style_of(name)
    return Path(__file__).parent / "checkpoints" / name
