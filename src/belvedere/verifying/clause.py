"""What a clause answers, before it has its number and its sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from belvedere.components.layer import Block
from belvedere.components.standard import blocks
from belvedere.verifying.report import Difference, Status

__all__ = ["Answer", "answered", "counted", "listed", "silent"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """As `belvedere.verifying.report.Outcome`, without number and sentence."""

    status: Status
    checked: str
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


def answered(checked: str, differences: Iterable[Difference], notes: Iterable[str] = ()) -> Answer:
    """The clause holds where nothing differs."""
    found = tuple(differences)
    return Answer(status="fail" if found else "pass", checked=checked, differences=found, notes=tuple(notes))


def silent(reason: str) -> Answer:
    """The clause says nothing of this checkpoint, or of this input."""
    return Answer(status="does not apply", checked=reason)


def listed(chosen: Sequence[Block]) -> str:
    """Blocks in words, by the list that they are in."""
    lists: dict[str, list[int]] = {}
    for block in chosen:
        lists.setdefault(block.name.rpartition("[")[0], []).append(block.number)
    return " and ".join(f"{name}[{blocks(numbers)}]" for name, numbers in lists.items()) or "no block"


def counted(number: int, what: str) -> str:
    """A number of things in words."""
    return f"{number} {what}{'s' * (number != 1)}"
