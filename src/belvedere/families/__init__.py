"""Facts about model types, one file each on three shelves: text stacks, towers, wrappers.

The file name is the registration: ``families/towers/pixtral.py`` is the tower of every config whose ``vision_config``
has
``model_type: pixtral``. Files are imported when first needed. An entry is a module or any object with

``RENAME``
    native name -> standard name, relative to the stack (text and towers);
``ENVOYS``
    standard name -> the `belvedere.components` envoy that serves it (text and towers);
``STACK``, ``INNER``, ``ROOT`` and ``ROWS``
    the text stack's native path in a text-only model (``model``), the linear layer in it that has an MLP's inner width
    (the config's ``intermediate_size``), the stack's own envoy (`Text`, `Vision`), the rows of a tower's patch axis
    (`Rows`), where they differ from these defaults;
``WRAPPER``
    a `Wrapper` (wrappers).
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from belvedere.errors import UnsupportedFamily
from belvedere.families.declined import DECLINED, reason
from belvedere.families.facts import DEFAULT_ROWS, DEFAULT_TEXT, DEFAULT_TOWER, Rows, Wrapper
from belvedere.spelling import did_you_mean

__all__ = ["DECLINED", "PARTS", "Family", "Rows", "Wrapper", "compose", "known", "lookup", "register"]

#: Each shelf, and the part of a checkpoint that it describes.
PARTS = {"text": "text", "towers": "tower", "wrappers": "wrapper"}

_registered: dict[str, dict[str, Any]] = {shelf: {} for shelf in PARTS}


@dataclass(frozen=True)
class Family:
    """The entries that one checkpoint is composed of, by model type.

    Args:
        text: The text stack's type.
        tower: The tower's type; ``None`` for a text model, and for a wrapper whose config has no tower.
        wrapper: The wrapper's type; ``None`` for a text model.
    """

    text: str
    tower: str | None = None
    wrapper: str | None = None

    def entry(self, shelf: str) -> Any:
        """The entry on a shelf: ``text``, ``towers`` or ``wrappers``."""
        return lookup(shelf, getattr(self, PARTS[shelf]))

    @property
    def facts(self) -> Wrapper:
        """The wrapper's record."""
        record: Wrapper = self.entry("wrappers").WRAPPER
        return record

    @property
    def rows(self) -> Rows:
        """What the rows of the tower's patch axis are."""
        rows: Rows = getattr(self.entry("towers"), "ROWS", DEFAULT_ROWS)
        return rows

    @property
    def text_envoy(self) -> Any:
        """The envoy of the text stack's root."""
        return getattr(self.entry("text"), "ROOT", DEFAULT_TEXT)

    @property
    def tower_envoy(self) -> Any:
        """The envoy of the tower's root."""
        return getattr(self.entry("towers"), "ROOT", DEFAULT_TOWER)


def known(shelf: str) -> tuple[str, ...]:
    """The model types that a shelf has, sorted.

    Args:
        shelf: ``"text"``, ``"towers"`` or ``"wrappers"``.
    """
    return tuple(sorted(_files(shelf) | set(_registered[shelf]) | set(_outside(shelf))))


def lookup(shelf: str, model_type: str) -> Any:
    """The entry of a model type.

    Raises:
        UnsupportedFamily: The shelf has none; the message names what it has and how to add one.
    """
    if model_type in _registered[shelf]:
        return _registered[shelf][model_type]
    if model_type in _outside(shelf):
        return _outside(shelf)[model_type].load()
    if model_type not in _files(shelf):
        # A type whose config has no vision part is looked up as a text stack, and is declined for the same cause.
        raise UnsupportedFamily(PARTS[shelf], model_type, known(shelf), reason(model_type) or "")
    return import_module(f"belvedere.families.{shelf}.{model_type}")


def register(shelf: str, model_type: str, entry: Any) -> None:
    """Put an entry on a shelf, for this process; it wins over a file of the same name.

    A package can do the same for everyone with an entry point: group ``belvedere.families``, name
    ``towers.my_tower``, value the module.

    Args:
        shelf: ``"text"``, ``"towers"`` or ``"wrappers"``.
        model_type: The type it describes, as the config spells it.
        entry: A module, or any object with the names that the package docstring lists.

    Raises:
        ValueError: There is no such shelf, or the entry lacks what that shelf needs.
    """
    if shelf not in PARTS:
        raise ValueError(f"no shelf {shelf!r}; shelves: {', '.join(PARTS)}{did_you_mean(shelf, PARTS)}")
    needed = ("WRAPPER",) if shelf == "wrappers" else ("RENAME", "ENVOYS")
    missing = [name for name in needed if not hasattr(entry, name)]
    if missing:
        raise ValueError(f"an entry of {shelf!r} needs {', '.join(missing)}")
    _registered[shelf][model_type] = entry


@cache
def _files(shelf: str) -> frozenset[str]:
    """The model types that a shelf has a file for."""
    package = import_module(f"belvedere.families.{shelf}")
    return frozenset(found.name for found in pkgutil.iter_modules(package.__path__))


@cache
def _outside(shelf: str) -> dict[str, Any]:
    """Entry points of other packages on this shelf."""
    found = entry_points(group="belvedere.families")
    return {point.name.partition(".")[2]: point for point in found if point.name.partition(".")[0] == shelf}


def compose(config: Any, **instead: str) -> Family:
    """Read a checkpoint's three model types off its config, before any weight loads.

    Args:
        config: A transformers config.
        **instead: A known type to use for ``text``, ``tower`` or ``wrapper`` in place of the config's.

    Returns:
        The family; without tower and wrapper where the config is a text model's.

    Raises:
        UnsupportedFamily: A part is unknown; it is named, with what is known.
        ValueError: ``instead`` names something that is no part.
    """
    strange = set(instead) - set(PARTS.values())
    if strange:
        raise ValueError(f"no part {', '.join(sorted(strange))} of a family; parts: {', '.join(PARTS.values())}")
    vision, text = getattr(config, "vision_config", None), config.get_text_config()
    if vision is None and "wrapper" not in instead:
        # A wrapper whose config leaves its tower out is still where the text stack hangs.
        wrapper = None if text is config else config.model_type
        family = Family(text=instead.get("text", text.model_type), wrapper=wrapper)
    else:
        types = {"text": text, "tower": vision, "wrapper": config}
        chosen = {part: instead.get(part) or getattr(held, "model_type", "") for part, held in types.items()}
        family = Family(**chosen)
    # The wrapper first: what stands in its way says more than that its text type is unknown too.
    for shelf, part in reversed(PARTS.items()):
        if getattr(family, part) is not None:
            lookup(shelf, getattr(family, part))
    return family
