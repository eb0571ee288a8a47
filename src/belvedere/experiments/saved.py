"""What every result of an experiment does: it shows itself as a table, and it goes to a file and comes back."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor

from belvedere.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

__all__ = ["Result", "refuse_unwritable"]

#: Lines of a table that a notebook shows at most.
LINES = 100


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """A record of tensors and plain values.

    A subclass declares its fields, what it is called (``KIND``, and ``HEADER`` in a file), the ``HEADINGS`` of its
    table and, by `lines`, what stands below them.
    """

    KIND: ClassVar[str] = "result"
    #: The key of a file's metadata under which everything but the tensors is kept.
    HEADER: ClassVar[str] = "belvedere.result"
    HEADINGS: ClassVar[tuple[str, ...]] = ()

    @property
    def title(self) -> str:
        """What stands above the table."""
        return self.KIND

    def lines(self) -> list[tuple[str, ...]]:
        """The table's lines, a cell for each heading."""
        return []

    def table(self) -> Table:
        """The result as a table."""
        from rich.table import Table

        table = Table(title=self.title)
        for name in self.HEADINGS:
            table.add_column(name, justify="right")
        for cells in self.lines():
            table.add_row(*cells)
        return table

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to one file: safetensors, with everything else as JSON in its metadata.

        Args:
            path: The file.

        Raises:
            InputError: It is a folder, or in none that is there.
        """
        from safetensors.torch import save_file

        refuse_unwritable(Path(path))
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        tensors = {name: value.contiguous() for name, value in held.items() if isinstance(value, Tensor)}
        rest = {name: value for name, value in held.items() if name not in tensors}
        save_file(tensors, fspath(path), metadata={self.HEADER: json.dumps(rest)})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: There is no such file.
            InputError: The file holds something else.
        """
        from safetensors import SafetensorError, safe_open

        try:
            if Path(path).is_dir():
                raise InputError(f"{fspath(path)} is a folder; pass the file that `{cls.__name__}.save` wrote")
            with safe_open(fspath(path), framework="pt") as opened:
                header = (opened.metadata() or {}).get(cls.HEADER)
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping
        except SafetensorError as error:
            raise InputError(f"{fspath(path)} is no safetensors file: {error}") from error
        if header is None:
            raise InputError(f"{fspath(path)} holds no {cls.KIND}; pass a file that `{cls.__name__}.save` wrote")
        return cls(**tensors, **{name: frozen(value) for name, value in json.loads(header).items()})

    def _figure(self) -> Figure | None:
        """What a notebook shows below the table: the plot, of a result that has one."""
        plot: Any = getattr(self, "plot", None)
        return None if plot is None else plot()

    def _repr_html_(self) -> str:
        from html import escape

        from belvedere.plot.inline import inlined

        def row(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        lines = self.lines()
        body = "".join(row(cells, "td") for cells in lines[:LINES])
        more = f"<p>and {len(lines) - LINES} lines more, in <code>table()</code></p>" if len(lines) > LINES else ""
        figure = self._figure()
        return (
            f"<p><code>{escape(repr(self))}</code></p>"
            f"<table><caption>{escape(self.title)}</caption><thead>{row(self.HEADINGS, 'th')}</thead>"
            f"<tbody>{body}</tbody></table>{more}" + ("" if figure is None else inlined(figure, self.title))
        )


def refuse_unwritable(path: Path) -> None:
    """A file that cannot be.

    Raises:
        InputError: It is a folder, or in none that is there.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass a file in it, such as {path / 'result.safetensors'}")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} for {path.name}; make it first")


def frozen(value: Any) -> Any:
    """What JSON gives back, its lists as the tuples that they were."""
    if isinstance(value, list):
        return tuple(frozen(entry) for entry in value)
    if isinstance(value, dict):
        return {key: frozen(entry) for key, entry in value.items()}
    return value
