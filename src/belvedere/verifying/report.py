"""What came of each clause of the contract, as a record that shows itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["SHOWN", "Difference", "Outcome", "Report"]

Status = Literal["pass", "fail", "does not apply"]
#: How many differences of a clause are written out before they are counted.
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that a clause says is equal, and is not.

    Args:
        where: The standard path of the value, or of the block.
        what: What differs, in words.
        by: The largest difference, where it is a number.
        tolerance: What rounding allows at that place; 0 where the two must be equal bit for bit.
    """

    where: str
    what: str
    by: float | None = None
    tolerance: float | None = None

    def __str__(self) -> str:
        size = "" if self.by is None else f" by {self.by:.3g}"
        if self.by is not None and self.tolerance is not None:
            size += f" (allowed: {self.tolerance:.3g})"
        return f"{self.where}: {self.what}{size}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a clause.

    Args:
        number: The clause's number in the contract.
        clause: The clause as a sentence.
        status: Whether it holds, fails, or says nothing of this checkpoint.
        checked: What was compared, on which blocks, and by which tolerance; why it does not apply, where it does not.
        differences: What was not equal, in the order of the forward.
        notes: What the clause could not look at, and why.
    """

    number: int
    clause: str
    status: Status
    checked: str
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What was checked, what differs, and what was not looked at, a sentence each."""
        rest = len(self.differences) - SHOWN
        more = [f"and {rest} more"] if rest > 0 else []
        return [self.checked, *(str(one) for one in self.differences[:SHOWN]), *more, *self.notes]


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """The contract on one checkpoint.

    Args:
        checkpoint: What the model was loaded from.
        clauses: An outcome for each clause.
        settings: The input, the number type, the attention implementation and the device.
    """

    checkpoint: str
    clauses: tuple[Outcome, ...]
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether no clause fails."""
        return not self.failed

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The clauses that fail."""
        return tuple(one for one in self.clauses if one.status == "fail")

    @property
    def summary(self) -> str:
        """One line: how many clauses hold, and which fail."""
        held = sum(one.status == "pass" for one in self.clauses)
        silent = sum(one.status == "does not apply" for one in self.clauses)
        failed = ", ".join(str(one.number) for one in self.failed)
        parts = [f"{held} of {len(self.clauses)} clauses hold"]
        parts += [f"{silent} {'does' if silent == 1 else 'do'} not apply"] if silent else []
        parts += [f"{failed} {'fails' if len(self.failed) == 1 else 'fail'}"] if failed else []
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Report({self.checkpoint}: {self.summary})"

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "checkpoint": self.checkpoint,
            "passed": self.passed,
            "settings": dict(self.settings),
            "clauses": [asdict(one) for one in self.clauses],
        }

    def table(self) -> Table:
        """The report as a table, a line for each clause."""
        from rich.table import Table
        from rich.text import Text

        colors = {"pass": "green", "fail": "bold red", "does not apply": "yellow"}
        table = Table(title=f"{self.checkpoint}: {self.summary}", title_justify="left", show_lines=True)
        for name in ("", "clause", "result", "what was checked"):
            table.add_column(name)
        for one in self.clauses:
            lines = Text("\n".join(one.lines))
            table.add_row(str(one.number), Text(one.clause), Text(one.status, style=colors[one.status]), lines)
        return table

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{one.number}</td><td>{escape(one.clause)}</td><td><b>{one.status}</b></td>"
            f"<td>{'<br>'.join(escape(line) for line in one.lines)}</td></tr>"
            for one in self.clauses
        )
        head = "<tr><th></th><th>clause</th><th>result</th><th>what was checked</th></tr>"
        title = escape(f"{self.checkpoint}: {self.summary}")
        left = "<style scoped>td, th { text-align: left !important; vertical-align: top }</style>"
        return f"<table>{left}<caption>{title}</caption>{head}{rows}</table>"
