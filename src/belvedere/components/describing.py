"""What there is to know of a value on a checkpoint before it runs: meaning, shape, order, writes, and where it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere import layouts
from belvedere.components.gathering import block_parts
from belvedere.components.reach import NoVision
from belvedere.components.sequence import sequence
from belvedere.components.standard import Standard, blocks
from belvedere.descriptors import KeptValue
from belvedere.errors import Unavailable
from belvedere.spelling import did_you_mean, meant

if TYPE_CHECKING:
    from belvedere.descriptors import Value

__all__ = ["Description", "Descriptions", "describe"]

WIDTH = 110
LABEL = 8
NUMBER = re.compile(r"\[\d+\]")


@dataclass(frozen=True, kw_only=True)
class Description:
    """One value of a checkpoint.

    Args:
        path: Its standard path; ``[i]`` where several blocks have it.
        meaning: What it is: its docstring.
        layout: The name of its layout in `belvedere.layouts`, or its Python type where it is no tensor.
        shape: Its axes, with the sizes that the checkpoint fixes.
        after: The path of the value that the forward makes just before it; ``None`` for the first.
        before: The path of the value that comes next; ``None`` for the last.
        any_later: Whether it can be read at any later point too.
        read_only: Why it cannot be written, and what to write instead; empty where it can.
        recomputed: What it is computed from when it is read; empty for the model's own tensor.
        note: What to know of a value that reads although nothing in the forward depends on it.
        having: The blocks that it reads on; empty for a value of no block.
        reasons: Why it is not here: by block, by ``None`` for a value of no block; empty where it reads everywhere.
    """

    path: str
    meaning: str
    layout: str
    shape: str
    after: str | None
    before: str | None
    any_later: bool
    read_only: str
    recomputed: str
    note: str
    having: tuple[int, ...]
    reasons: dict[int | None, str]

    @property
    def available(self) -> bool:
        """Whether it reads on this checkpoint, on some block at least."""
        return bool(self.having) or not self.reasons

    def __str__(self) -> str:
        rows = {"what": self.meaning}
        if self.available:
            rows |= {"shape": f"{self.layout} {self.shape}".strip(), "order": self._order(), "write": self._write()}
        if self.recomputed:
            rows["made of"] = f"{self.recomputed}; recomputed when it is read"
        rows["here"] = self._here()
        if self.note:
            rows["note"] = self.note
        return "\n".join([self.path, *(line for label, said in rows.items() for line in _wrapped(label, said))])

    __repr__ = __str__

    def briefly(self) -> list[str]:
        """The path and why it is not here."""
        reasons = "; ".join(dict.fromkeys(self.reasons.values()))
        return textwrap.wrap(f"{self.path}: {reasons}", WIDTH, initial_indent="  ", subsequent_indent="    ")

    def _order(self) -> str:
        said = [f"after {self.after}"] if self.after else ["the first"]
        said += [f"before {self.before}"] if self.before else ["the last"]
        late = "; can be read at any later point too" if self.any_later else ""
        return f"{', '.join(said)}{late}"

    def _write(self) -> str:
        return f"no: {self.read_only}" if self.read_only else "in place, or by assignment"

    def _here(self) -> str:
        if not self.reasons:
            return f"yes, on blocks {blocks(list(self.having))}" if len(self.having) > 1 else "yes"
        by_reason: dict[str, list[int]] = {}
        for block, reason in self.reasons.items():
            by_reason.setdefault(reason, []).extend([] if block is None else [block])
        having = f"on blocks {blocks(list(self.having))}; " if self.having else "no; "
        return having + "; ".join(
            f"not on {blocks(numbers)}: {reason}" if numbers and self.having else reason
            for reason, numbers in by_reason.items()
        )


class Descriptions(tuple[Description, ...]):
    """Descriptions of several values, or of one value that different blocks have in different forms."""

    def __str__(self) -> str:
        here = [one for one in self if one.available]
        if not here:
            return "\n\n".join(map(str, self))
        missing = [line for one in self if not one.available for line in one.briefly()]
        return "\n\n".join([*map(str, here), *(["\n".join(["not here", *missing])] if missing else [])])

    __repr__ = __str__


def describe(host: Standard, path: str) -> Descriptions:
    """The values that a path means, seen from a host.

    Raises:
        ValueError: There is no such value or part; the message names the nearest.
        Unavailable: It is of a tower, and there is none.
    """
    pairs = _found(host, path)
    everything = sequence(host.root)
    kinds: dict[tuple[Any, ...], list[tuple[Standard, Value[Any]]]] = {}
    for one, found in pairs:
        kinds.setdefault((NUMBER.sub("[i]", one.name), found), []).append((one, found))
    order = {(id(one), id(found)): number for number, (one, found) in enumerate(everything)}
    ordered = sorted(kinds.values(), key=lambda alike: order[id(alike[0][0]), id(alike[0][1])])
    return Descriptions(_described(alike, everything) for alike in ordered)


def _described(alike: list[tuple[Standard, Value[Any]]], everything: list[tuple[Standard, Value[Any]]]) -> Description:
    reasons = {_number(host): reason for host, found in alike if (reason := found.reason(host)) is not None}
    having = [host for host, found in alike if found.reason(host) is None]
    # Of several blocks one in the middle: what comes before the first is no rule for the others.
    host, found = having[len(having) // 2] if having else alike[0][0], alike[0][1]
    several = len(alike) > 1
    before, after = _neighbours((host, found), everything) if having else (None, None)
    path = found.path(host)
    return Description(
        path=NUMBER.sub("[i]", path) if several else path,
        meaning=_plain(getattr(found._preprocess, "__doc__", None) or found.description or ""),
        layout=found.layout,
        shape=layouts.shape(found.layout, _sizes(host, found) if having else {}),
        after=_relative(before, host, several),
        before=_relative(after, host, several),
        any_later=isinstance(found, KeptValue),
        read_only=found.read_only,
        recomputed=found.recomputed,
        note=(host.remark(str(found.name)) or "") if having and not several else "",
        having=tuple(number for one in having if (number := _number(one)) is not None),
        reasons=reasons,
    )


def _neighbours(
    pair: tuple[Standard, Value[Any]], everything: list[tuple[Standard, Value[Any]]]
) -> tuple[tuple[Standard, Value[Any]] | None, ...]:
    """The values that read just before and just after one, but for those that can be read at any later point."""
    at = next(number for number, (host, found) in enumerate(everything) if host is pair[0] and found is pair[1])
    ways = (reversed(everything[:at]), iter(everything[at + 1 :]))
    return tuple(next(filter(_marks_a_moment, way), None) for way in ways)


def _marks_a_moment(pair: tuple[Standard, Value[Any]]) -> bool:
    host, found = pair
    # The features of a video are of a trace that shows one.
    return not isinstance(found, KeptValue) and found.name != "video_features" and found.reason(host) is None


def _relative(pair: tuple[Standard, Value[Any]] | None, host: Standard, several: bool) -> str | None:
    """A neighbour's path; of a value that several blocks have, in words of any block."""
    if pair is None:
        return None
    path, own = pair[1].path(pair[0]), _number(host)
    there = _number(pair[0])
    if not several or own is None or there is None or path.partition("[")[0] != host.name.partition("[")[0]:
        return path
    step = there - own
    return NUMBER.sub("[i]" if not step else f"[i{step:+d}]".replace("+", " + ").replace("-", " - "), path, count=1)


def _number(host: Standard) -> int | None:
    """The number of the block that a host is or is a part of."""
    found = NUMBER.search(host.name)
    return None if found is None else int(found[0][1:-1])


def _sizes(host: Standard, found: Value[Any]) -> dict[str, int]:
    """The axes of a value that the checkpoint fixes."""
    sizes = {}
    for axis in layouts.axes_of(found.layout):
        try:
            sizes[axis] = host.axis_size(axis)
        except (ValueError, Unavailable):
            continue
    return sizes


def _plain(documented: str) -> str:
    return " ".join(documented.replace("``", "`").split())


def _wrapped(label: str, said: str) -> list[str]:
    return textwrap.wrap(
        said,
        WIDTH,
        initial_indent=f"  {label:<{LABEL}}",
        subsequent_indent=" " * (LABEL + 2),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _found(host: Standard, path: str) -> list[tuple[Standard, Value[Any]]]:
    """The hosts and values of a path such as ``layers.layer_output``, ``layers[3].mlp`` or ``vision``."""
    hosts: list[Any] = [host]
    *above, last = re.findall(r"[^.\[\]]+", path) or [""]
    for name in above:
        hosts = list(_step(host, path, hosts, name))
    values = [(one, one.values()[last]) for one in _with_parts(hosts) if last in one.values()]
    if values:
        return values
    hosts = list(_step(host, path, hosts, last)) if last else hosts
    return [(one, found) for one in _with_parts(hosts) for found in one.values().values()] or _missing(host, path)


def _with_parts(hosts: list[Any]) -> Iterator[Standard]:
    """The hosts; of blocks their parts too, where their values are named without them."""
    for one in hosts:
        yield from block_parts(one) if hasattr(type(one), "number") else [one]


def _step(host: Standard, path: str, hosts: list[Any], name: str) -> Iterator[Any]:
    """What is at a name or a block's number below some hosts."""
    if name.lstrip("-").isdigit():
        stack = [one for one in hosts if hasattr(type(one), "number")]
        if not -len(stack) <= int(name) < len(stack):
            raise ValueError(f"no block {name} in {path!r}; there are {len(stack)}")
        yield stack[int(name)]
        return
    found = [vars(one)[name] for one in hosts if name in vars(one)]
    if not found:
        _missing(host, path)
    for one in found:
        if isinstance(one, NoVision):
            raise Unavailable(path, str(one.no_images()))
        yield from [one] if isinstance(one, Standard) else one


def _missing(host: Standard, path: str) -> Any:
    """Raise for a path that means nothing here."""
    known = [NUMBER.sub("", found.path(one)) for one, found in sequence(host.root)]
    left_out = [re.sub(r"\.(\w*attn|conv|mlp)(?=\.)", "", one) for one in known]
    under = f"{NUMBER.sub('', host.name)}." if host.name else ""
    parts = [one.rpartition(".")[0] for one in known]
    names = [one.removeprefix(under) for one in (*left_out, *known, *parts) if one.startswith(under)]
    written = NUMBER.sub("", path)
    # A name without its block is meant by itself, and not by what it looks like.
    whole = next((one for one in names if one.endswith(f".{written}")), None)
    near = meant(whole) if whole else did_you_mean(written, names, closeness=0.8)
    raise ValueError(f"{host.name or 'the model'} has no value or part {path!r}{near}")
