"""How a value stands on a whole checkpoint: served, recomputed or lacking, and on which blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from belvedere.components.standard import blocks
from belvedere.report.matrix import Column, Matrix, Row

__all__ = ["Lack", "Standing", "reasons_of", "standings"]

State = Literal["served", "recomputed", "lacking"]


@dataclass(frozen=True, kw_only=True)
class Lack:
    """Why a value does not read, and on which blocks; on all that there are where it names none."""

    reason: str
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a value stands on a checkpoint.

    Args:
        state: ``served`` where the model's own tensor is read, ``recomputed`` where it is made when it is read (on any
            block), ``lacking`` where no block has it.
        part: The part of a block that it is read from.
        shape: How its layout is written.
        recomputed: What it is recomputed from.
        blocks: The blocks that have it, where others lack it; none where all have it or all lack it.
        lacks: The reasons of those that lack it.
    """

    state: State
    part: str = ""
    shape: str = ""
    recomputed: str = ""
    blocks: tuple[int, ...] = ()
    lacks: tuple[Lack, ...] = ()

    @property
    def kind(self) -> str:
        """The state, or ``some`` where some blocks have it and others lack it."""
        return "some" if self.blocks else self.state

    @property
    def where(self) -> str:
        """The blocks that have it, as words; empty where all do."""
        return f"blocks {blocks(list(self.blocks))}" if self.blocks else ""

    @property
    def because(self) -> str:
        """The reasons in a sentence each, with their blocks where only some lack it."""
        said = [f"blocks {blocks(list(one.blocks))}: {one.reason}" if self.blocks else one.reason for one in self.lacks]
        return ". ".join(said)

    def as_data(self) -> dict[str, Any]:
        """The standing as JSON takes it: ``blocks`` is ``null`` where it says nothing of single blocks."""
        lacks = [{"blocks": list(one.blocks) or None, "reason": one.reason} for one in self.lacks]
        return {
            "state": self.state,
            "blocks": list(self.blocks) or None,
            "part": self.part,
            "shape": self.shape,
            "recomputed": self.recomputed,
            "reasons": lacks,
        }


def standings(matrix: Matrix) -> dict[str, Standing]:
    """Every value of a checkpoint by standard path."""
    return {row.value: _standing(group.columns, row) for group in matrix.groups for row in group.rows}


def reasons_of(found: Iterable[Standing]) -> tuple[str, ...]:
    """Every reason once, in the order in which they come."""
    return tuple(dict.fromkeys(one.reason for standing in found for one in standing.lacks))


def _standing(columns: tuple[Column, ...], row: Row) -> Standing:
    pairs = list(zip(columns, row.cells, strict=True))
    reading = [(column, cell) for column, cell in pairs if cell.reason is None]
    if not reading:
        return Standing(state="lacking", part=row.part, lacks=_lacks(pairs, whole=len(pairs) == 1))
    made = dict.fromkeys(cell.recomputed for _, cell in reading if cell.recomputed)
    return Standing(
        state="recomputed" if made else "served",
        part=row.part,
        shape=" or ".join(dict.fromkeys(cell.shape for _, cell in reading)),
        recomputed=" or ".join(made),
        blocks=_numbers(column for column, _ in reading) if len(reading) < len(pairs) else (),
        lacks=_lacks([pair for pair in pairs if pair not in reading], whole=False),
    )


def _lacks(pairs: list[Any], *, whole: bool) -> tuple[Lack, ...]:
    """The reasons of some columns, each with its blocks; a reason that all blocks share names none."""
    by_reason: dict[str, list[Column]] = {}
    for column, cell in pairs:
        by_reason.setdefault(cell.reason, []).append(column)
    return tuple(
        Lack(reason=reason, blocks=() if whole else _numbers(columns)) for reason, columns in by_reason.items()
    )


def _numbers(columns: Iterable[Column]) -> tuple[int, ...]:
    return tuple(sorted(number for column in columns for number in column.blocks))


def counts(found: Mapping[str, Standing]) -> dict[str, int]:
    """How many values are served, recomputed, there on some blocks only, and lacking."""
    kinds = [standing.kind for standing in found.values()]
    return {kind: kinds.count(kind) for kind in ("served", "recomputed", "some", "lacking")}
