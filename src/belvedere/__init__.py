"""One set of names and values for the insides of every vision-language model on Hugging Face."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belvedere import components, experiments, families, geometry, layouts, plot, report, shapes, staged, testing
    from belvedere.errors import InputError, Unavailable, UnsupportedFamily, WriteError
    from belvedere.shapes import checkpoint
    from belvedere.standardized import StandardizedTransformer

#: Where each public name lives; `None` is a module of its own.
_HOMES: dict[str, str | None] = {
    "InputError": "errors",
    "StandardizedTransformer": "standardized",
    "Unavailable": "errors",
    "UnsupportedFamily": "errors",
    "WriteError": "errors",
    "checkpoint": "shapes",
    "components": None,
    "experiments": None,
    "families": None,
    "geometry": None,
    "layouts": None,
    "plot": None,
    "report": None,
    "shapes": None,
    "staged": None,
    "testing": None,
}

__all__ = [
    "InputError",
    "StandardizedTransformer",
    "Unavailable",
    "UnsupportedFamily",
    "WriteError",
    "checkpoint",
    "components",
    "experiments",
    "families",
    "geometry",
    "layouts",
    "plot",
    "report",
    "shapes",
    "staged",
    "testing",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'belvedere' has no attribute {name!r}")
    home = _HOMES[name]
    with warnings.catch_warnings():
        # tqdm, when transformers first imports it in a notebook without ipywidgets; its bars are plain text then.
        warnings.filterwarnings("ignore", message="IProgress not found")
        found = import_module(f"belvedere.{home or name}")
    return found if home is None else getattr(found, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
