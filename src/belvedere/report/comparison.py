"""Where checkpoints differ: the values that read on one and not, or not so, on another."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from belvedere.report.matrix import Matrix
from belvedere.report.standing import Lack, Standing, reasons_of, standings

__all__ = ["Comparison", "Difference", "compare"]

NOWHERE = Standing(
    state="lacking", lacks=(Lack(reason="nothing in this checkpoint has it; see its own list of values"),)
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A value that the checkpoints do not have alike, and how it stands on each."""

    value: str
    standings: tuple[Standing, ...]

    @property
    def in_parts(self) -> bool:
        """Whether they read it from different parts of a block."""
        return len({one.part for one in self.standings if one.state != "lacking"}) > 1


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Where checkpoints differ.

    Args:
        matrices: What each supports.
        differences: The values that they do not have alike.
        alike: How many values they have alike, those that all of them lack among them.
    """

    matrices: tuple[Matrix, ...]
    differences: tuple[Difference, ...]
    alike: int

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason once, in the order in which the table meets them."""
        return reasons_of(standing for row in self.differences for standing in row.standings)


def compare(*matrices: Matrix) -> Comparison:
    """Compare what checkpoints support.

    They differ in a value where it does not read on the same blocks, from the same part, in the same layout, or is
    recomputed on one only. Two reasons for lacking it are no difference.

    Args:
        *matrices: Two checkpoints or more.
    """
    each = [standings(matrix) for matrix in matrices]
    values = dict.fromkeys(value for found in each for value in found)
    rows = [Difference(value=value, standings=tuple(found.get(value, NOWHERE) for found in each)) for value in values]
    differing = [row for row in rows if len({_seen(one) for one in row.standings}) > 1]
    return Comparison(matrices=matrices, differences=tuple(differing), alike=len(rows) - len(differing))


def _seen(standing: Standing) -> Hashable:
    """What a reader of the value can tell apart."""
    if standing.state == "lacking":
        return "lacking"
    return standing.state, standing.part, standing.shape, standing.blocks
