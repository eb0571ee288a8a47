"""Every error that Belvedere raises itself.

::

    Exception
    ├── RuntimeError
    │   └── Unavailable         a value that this checkpoint does not have
    └── ValueError
        ├── UnsupportedFamily   a model type that no shelf knows
        ├── InputError          an input that no forward can take
        └── WriteError          a write that cannot land

``Unavailable`` is a ``RuntimeError`` and never an ``AttributeError``: an attribute error inside a descriptor is read as
"no such attribute" and the reason would be lost.
"""

from collections.abc import Iterable

from belvedere.spelling import did_you_mean

__all__ = ["InputError", "Unavailable", "UnsupportedFamily", "WriteError"]


class Unavailable(RuntimeError):  # noqa: N818 - the name is what a reader of a traceback needs
    """A value that this checkpoint does not have: where, why, and what to do instead.

    Args:
        path: The standard path of the value, such as ``vision.layers[0].self_attn.attention_probabilities``.
        reason: The cause and the way out, joined by a semicolon, as ``support()`` lists it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} is not available: {self.reason}"


class UnsupportedFamily(ValueError):  # noqa: N818 - named for what it says, as the design does
    """A model type that no shelf of families knows.

    Args:
        part: Which part is unknown: ``text``, ``tower`` or ``wrapper``.
        model_type: The ``model_type`` that the config gives it.
        known: The model types that the shelf has.
        cause: What stands in the way of an entry, where someone has looked.
    """

    def __init__(self, part: str, model_type: str, known: Iterable[str], cause: str = "") -> None:
        self.part, self.model_type, self.known, self.cause = part, model_type, tuple(known), cause
        super().__init__(part, model_type, self.known, cause)

    @property
    def brief(self) -> str:
        """What is missing, and why, without the way out."""
        cause = f" ({self.cause})" if self.cause else ""
        return f"no {self.part} entry for model_type {self.model_type!r}{cause}"

    def __str__(self) -> str:
        shelf = {"text": "text", "tower": "towers", "wrapper": "wrappers"}[self.part]
        near = did_you_mean(self.model_type, self.known, closeness=0.8)
        return (
            f"{self.brief}; "
            f"known: {', '.join(self.known) or 'none'}{near or '.'} "
            f"Register one with belvedere.families.register({shelf!r}, {self.model_type!r}, entry), or pass "
            f"family={{{self.part!r}: <a known type with the same modules>}} for this load"
        )


class InputError(ValueError):
    """An input that no forward can take; the message says what to pass."""


class WriteError(ValueError):
    """A write that cannot land; the message says what would."""
