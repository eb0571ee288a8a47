"""What is installed, and what this transformers and Belvedere know of each other's model types."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import belvedere
from belvedere import families

__all__ = ["TransformersReport", "image_text_types", "transformers_report", "versions"]

PACKAGES = ("transformers", "torch", "nnsight")


@dataclass(frozen=True, kw_only=True)
class TransformersReport:
    """What the installed transformers and Belvedere know of each other.

    Args:
        versions: Of belvedere, transformers, torch, nnsight and python.
        without_entry: The types that this transformers maps to image-text-to-text and no wrapper entry describes.
        new: Those of them that nobody has looked at: a release of transformers brought them.
        unknown: By shelf, the entries whose type this transformers has no config class for: it is older than they are,
            or has dropped them.
    """

    versions: Mapping[str, str]
    without_entry: tuple[str, ...]
    new: tuple[str, ...]
    unknown: Mapping[str, tuple[str, ...]]

    def as_data(self) -> dict[str, Any]:
        """The report as JSON takes it."""
        return {
            "versions": dict(self.versions),
            "without_entry": list(self.without_entry),
            "new": list(self.new),
            "unknown": {shelf: list(names) for shelf, names in self.unknown.items()},
        }

    @property
    def lines(self) -> dict[str, str]:
        """What it says, under a heading each."""
        unknown = [f"{name} ({shelf})" for shelf, names in self.unknown.items() for name in names]
        count = len(self.without_entry)
        return {
            "versions": ", ".join(f"{name} {held}" for name, held in self.versions.items()),
            f"{count} image-text-to-text types of transformers without an entry": _listed(self.without_entry),
            "of these, nobody has looked at": _listed(self.new),
            "entries that this transformers does not know": _listed(unknown),
        }


def versions(*more: str) -> dict[str, str]:
    """The versions of Belvedere, python and the packages that it stands on, by name.

    Args:
        *more: Further packages.
    """
    installed = {name: version(name) for name in (*PACKAGES, *more)}
    return {"belvedere": belvedere.__version__, **installed, "python": platform.python_version()}


def image_text_types() -> tuple[str, ...]:
    """The model types that this transformers maps to image-text-to-text."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    return tuple(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)


def transformers_report() -> TransformersReport:
    """What the installed transformers and Belvedere know of each other; builds nothing."""
    from transformers import CONFIG_MAPPING

    without = [name for name in sorted(image_text_types()) if name not in families.known("wrappers")]
    return TransformersReport(
        versions=versions(),
        without_entry=tuple(without),
        new=tuple(name for name in without if name not in families.DECLINED),
        unknown={
            shelf: tuple(name for name in families.known(shelf) if name not in CONFIG_MAPPING)
            for shelf in families.PARTS
        },
    )


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
