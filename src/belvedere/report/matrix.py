"""What a checkpoint supports, as a table: values down, blocks across."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere import layouts
from belvedere.components import NoVision
from belvedere.components.gathering import block_values
from belvedere.components.standard import blocks

if TYPE_CHECKING:
    from belvedere.components import Standard
    from belvedere.descriptors import Value
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Cell", "Column", "Group", "Matrix", "Row", "support_matrix"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """The blocks that support the same values for the same reasons; none for what the model has once."""

    blocks: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The block numbers with runs folded, such as ``0-2, 4-6``."""
        return f"blocks {blocks(list(self.blocks))}" if self.blocks else "model"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A value in one column: its shape where it reads, or the reason why it does not.

    Args:
        shape: How its layout is written.
        reason: Why it does not read; ``None`` where it does.
        recomputed: What it is recomputed from, where it is.
        part: The part of the block that it is read from, such as ``self_attn``; empty for the block's or model's own.
    """

    shape: str = ""
    reason: str | None = None
    recomputed: str = ""
    part: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A value: its standard path, and a cell for each column."""

    value: str
    cells: tuple[Cell, ...]

    @property
    def part(self) -> str:
        """The part of a block that it is read from, or the parts; where it never reads, those that say why."""
        reading = [cell.part for cell in self.cells if cell.reason is None] or [cell.part for cell in self.cells]
        return " or ".join(dict.fromkeys(part for part in reading if part))


@dataclass(frozen=True, kw_only=True)
class Group:
    """The values of one part of the model."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The support of a checkpoint.

    Args:
        checkpoint: What was asked about.
        family: The model types of its parts.
        groups: Its values, part by part.
        note: Why no picture reaches a tower, where none does.
    """

    checkpoint: str
    family: Mapping[str, str]
    groups: tuple[Group, ...]
    note: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason once, in the order in which the table meets them."""
        cells = (cell for group in self.groups for row in group.rows for cell in row.cells)
        return tuple(dict.fromkeys(cell.reason for cell in cells if cell.reason is not None))

    def number(self, reason: str) -> int:
        """A reason's number in the list under the table, from 1."""
        return self.reasons.index(reason) + 1


def support_matrix(model: StandardizedTransformer, checkpoint: str) -> Matrix:
    """The matrix of a model, which needs no weights.

    Args:
        model: A model, such as `StandardizedTransformer.from_config` makes it.
        checkpoint: What to call it.
    """
    support = model.support()
    parts = _parts(model)
    homes = {name: max((prefix for prefix in parts if name.startswith(prefix)), key=len) for name in support}
    groups = []
    for prefix, part in parts.items():
        held = {name: reason for name, reason in support.items() if homes[name] == prefix}
        if held:
            groups.append(_group(prefix, part, held))
    family = {part: name for part, name in vars(model.family).items() if name is not None}
    return Matrix(checkpoint=checkpoint, family=family, groups=tuple(groups), note=str(model.vision.no_images() or ""))


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of the model whose values stand together: one envoy, or the equal-minded blocks of a stack."""

    title: str
    hosts: tuple[Any, ...]
    folded: bool


def _parts(model: StandardizedTransformer) -> dict[str, _Part]:
    """The parts by the prefix of their values' paths."""
    parts = {
        "": _Part(title="Model", hosts=(model,), folded=False),
        "layers.": _Part(title="Text blocks", hosts=tuple(model.layers), folded=True),
    }
    if isinstance(model.vision, NoVision):
        return parts
    lists = {name: "Tower blocks" if name == "layers" else f"Tower blocks, {name}" for name in model.vision.LISTS}
    return {
        **parts,
        "vision.": _Part(title="Vision", hosts=(model.vision,), folded=False),
        **{
            f"vision.{name}.": _Part(title=title, hosts=tuple(getattr(model.vision, name)), folded=True)
            for name, title in lists.items()
        },
    }


def _group(prefix: str, part: _Part, support: Mapping[str, Any]) -> Group:
    """One part of the model, the blocks that answer alike in one column."""
    alike: dict[tuple[Cell, ...], list[int]] = {}
    for number, host in enumerate(part.hosts):
        homes = _homes(host, part.folded)
        cells = (_cell(host, homes[name.removeprefix(prefix)], held, number) for name, held in support.items())
        alike.setdefault(tuple(cells), []).append(number)
    columns = tuple(Column(blocks=tuple(numbers) if part.folded else ()) for numbers in alike.values())
    rows = [Row(value=name, cells=cells) for name, cells in zip(support, zip(*alike, strict=True), strict=True)]
    return Group(title=part.title, columns=columns, rows=tuple(rows))


def _homes(host: Any, is_block: bool) -> dict[str, tuple[Standard, Value[Any]]]:
    """Each value of a host: the envoy that it is read from, and its descriptor."""
    return block_values(host) if is_block else {name: (host, found) for name, found in host.values().items()}


def _cell(host: Any, where: tuple[Standard, Value[Any]], held: Any, number: int) -> Cell:
    home, found = where
    part = "" if home is host else home.part
    reason = held.get(number) if isinstance(held, Mapping) else held
    if reason is not None:
        return Cell(reason=reason, part=part)
    return Cell(shape=layouts.shape(found.layout), recomputed=found.recomputed, part=part)
