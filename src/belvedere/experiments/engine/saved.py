"""A sweep's scores in a file as they come, so that one that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere.errors import InputError
from belvedere.experiments.saved import refuse_unwritable

if TYPE_CHECKING:
    from belvedere.experiments.pairs import Pair

__all__ = ["DIGITS", "Scores", "digest", "digest_of"]

#: The key of the file's metadata.
KEY = "belvedere.sweep"
SECONDS = 0.5
#: How much of a digest tells inputs apart in a result.
DIGITS = 16
#: How far the same runs' metric may be from the last time's, on another machine or kernel.
CLOSE = 1e-3


@dataclass
class Scores:
    """The metric of every cell that was measured, NaN where none was.

    Args:
        raw: ``[layer, position]``.
        about: What sweep it is.
        ends: The metric of the clean and of the corrupt run.
        path: Where they are written; ``None`` keeps them in memory.
    """

    raw: Tensor
    about: Mapping[str, Any]
    ends: tuple[float, float]
    path: Path | None = None
    _written: float = 0.0

    @classmethod
    def of(cls, about: Mapping[str, Any], ends: tuple[float, float], path: str | os.PathLike[str] | None) -> Scores:
        """The scores of a sweep: those of its file, where it was begun before.

        Raises:
            InputError: The file is no sweep's, or another sweep's.
        """
        raw = torch.full((len(about["layers"]), len(about["positions"])), torch.nan)
        made = cls(raw, json.loads(json.dumps(about)), ends, None if path is None else Path(path))
        if made.path is not None:
            refuse_unwritable(made.path)
            if made.path.exists():
                made._read(made.path)
        return made

    def put(self, cells: Sequence[Sequence[int]], scores: Tensor) -> None:
        """Note what some cells, by row and column, measured, and write it down now and then."""
        for (row, column), score in zip(cells, scores.float().tolist(), strict=True):
            self.raw[row, column] = score
        if time.monotonic() - self._written > SECONDS:
            self.write()

    def write(self) -> None:
        """Write the file as a whole, in one step, so that it is never half a file."""
        if self.path is None:
            return
        from safetensors.torch import save_file

        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        header = json.dumps({**self.about, "clean": self.ends[0], "corrupt": self.ends[1]})
        save_file({"raw": self.raw}, beside, metadata={KEY: header})
        beside.replace(self.path)
        self._written = time.monotonic()

    def _read(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as opened:
                header = (opened.metadata() or {}).get(KEY)
                raw = opened.get_tensor("raw") if header is not None else None
        except SafetensorError as error:
            raise InputError(f"{path} is no safetensors file: {error}; pass another `file`") from error
        if header is None or raw is None:
            raise InputError(f"{path} holds no sweep that was begun; pass another `file`")
        rest = json.loads(header)
        for name, ours in self.about.items():
            if rest.get(name) != ours:
                raise InputError(f"{path} holds another sweep: its {name} differ(s) from this one's; {_advice(path)}")
        for name, end in zip(("clean", "corrupt"), self.ends, strict=True):
            if abs(rest[name] - end) > CLOSE * max(abs(end), abs(self.ends[0] - self.ends[1])):
                raise InputError(
                    f"{path} holds another sweep: the {name} run's metric was {rest[name]:.4g} and is {end:.4g} now, "
                    f"so the weights or the metric are others; {_advice(path)}"
                )
        self.raw = raw


def _advice(path: Path) -> str:
    return f"pass another `file`, or remove {path.name}"


def digest(pair: Pair) -> str:
    """What tells two pairs of inputs apart."""
    return digest_of(pair.clean.encoding, pair.corrupt.encoding)


def digest_of(*given: Mapping[str, Any]) -> str:
    """What tells tensors by name, and whatever is beside them, from others."""
    made = hashlib.sha256()
    for one in given:
        for name, held in sorted(one.items()):
            shown = held.detach().cpu().contiguous() if isinstance(held, Tensor) else None
            made.update(name.encode())
            if shown is None:
                made.update(repr(held).encode())
            else:
                made.update(str((shown.dtype, tuple(shown.shape))).encode())
                made.update(shown.view(torch.uint8).numpy().tobytes() if shown.ndim else repr(shown).encode())
    return made.hexdigest()
