"""How many cells share a forward: as many as memory holds and as long as more of them are faster, both measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

__all__ = ["Memory", "Pace", "memory_of"]

FIRST, MOST = 32, 256
#: Where nothing is known of the memory.
UNMEASURED = 32
#: How much of what is free may be taken.
SHARE = 0.5
#: How much faster twice as many must be to go on.
GAIN = 1.05
#: How many forwards of a size must be left for it to be worth a try.
WORTH = 8


class Memory(Protocol):
    """Tells what is free, and what a run takes at its peak."""

    def free(self) -> int | None:
        """Bytes that can be had; ``None`` where that is not known."""

    def begin(self) -> None:
        """A run begins."""

    def taken(self) -> int:
        """The most bytes that were taken since."""


@dataclass
class Cuda:
    """A graphics card's memory."""

    device: torch.device

    def free(self) -> int | None:
        """What the driver has, and what torch holds without use."""
        held = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0]) + int(held)

    def begin(self) -> None:
        """Forget the last peak."""
        torch.cuda.reset_peak_memory_stats(self.device)
        self._before = torch.cuda.memory_allocated(self.device)

    def taken(self) -> int:
        """The peak above what was allocated."""
        return int(torch.cuda.max_memory_allocated(self.device)) - self._before


class Host:
    """The memory of this process, as Linux counts it."""

    def free(self) -> int | None:
        """What the machine, and the group that the process is in, can give."""
        found = _counts("/proc/meminfo").get("MemAvailable")
        with suppress(OSError, ValueError):
            group = Path("/sys/fs/cgroup")
            left = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
            return left if found is None else min(left, found)
        return found

    def begin(self) -> None:
        """Forget the last peak."""
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._before = _counts("/proc/self/status").get("VmRSS", 0)

    def taken(self) -> int:
        """The peak above what was held."""
        return max(_counts("/proc/self/status").get("VmHWM", 0) - self._before, 0)


def memory_of(device: torch.device) -> Memory:
    """The memory of a device."""
    return Cuda(device) if device.type == "cuda" else Host()


def _counts(path: str) -> dict[str, int]:
    """A table of sizes in kB, in bytes; empty where there is none."""
    with suppress(OSError):
        lines = [line.split() for line in Path(path).read_text().splitlines()]
        return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[-1] == "kB"}
    return {}


@dataclass
class Pace:
    """Chooses the number of cells of the next forward.

    Args:
        memory: The memory that they take.
        fixed: The number, where it was chosen already.
    """

    memory: Memory
    fixed: int | None = None
    _size: int = FIRST
    _speeds: dict[int, float] = field(default_factory=dict)
    _bytes: float = 0.0
    _free: int | None = None

    def size(self, rows: int, left: int = MOST * WORTH) -> int:
        """How many cells of so many rows the next forward takes, where so many are left."""
        if self.fixed is not None:
            return self.fixed
        if self._free is None:
            self._free = self.memory.free() or 0
        if not self._free:
            return UNMEASURED
        is_new = bool(self._speeds) and self._size not in self._speeds
        size = self._size // 2 if is_new and left < WORTH * self._size else self._size
        fitting = int(self._free * SHARE / (self._bytes * rows)) if self._bytes else size
        return max(1, min(size, fitting))

    @property
    def most(self) -> int:
        """The most cells that a forward took, or may take where there was none."""
        return self.fixed or max(self._speeds, default=self._size)

    @contextmanager
    def measured(self, cells: int, rows: int, work: int) -> Iterator[None]:
        """While it holds, a forward of some cells runs.

        Args:
            cells: How many.
            rows: How many rows each has.
            work: How many rows pass how many blocks, of those that each cell needs by itself.
        """
        if self.fixed is not None or cells in self._speeds:
            yield
            return
        self.memory.begin()
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self._bytes = max(self._bytes, self.memory.taken() / (cells * rows))
        self._free = None
        if cells == self._size:
            self._settle(work / seconds)

    def halve(self, cells: int) -> bool:
        """After a forward of so many cells that the memory did not hold; whether fewer can be tried."""
        if self.fixed is not None or cells == 1:
            return False
        self._size = max(1, cells // 2)
        # It is not doubled again.
        self._speeds = {self._size: 0.0, 2 * self._size: 0.0}
        return True

    def _settle(self, speed: float) -> None:
        """Double the size while that is faster, and keep the best one after."""
        self._speeds[self._size] = speed
        half = self._speeds.get(self._size // 2)
        if half is not None and speed < GAIN * half:
            self._size //= 2
        else:
            self._size = min(2 * self._size, MOST)
