"""The module tree of an envoy with its values: what nnsight prints, each module once and equal blocks together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnsight.intervention.eproperty import eproperty
from torch.nn import ModuleList

from belvedere.components.standard import Standard, blocks
from belvedere.descriptors import Value

__all__ = ["tree"]


def tree(envoy: Any) -> str:
    """Every module below an envoy, with its standard and native name, and every value with its shape."""
    if envoy._child_map and isinstance(envoy._module, ModuleList):
        lines = list(_numbered(envoy))
    else:
        lines = [*_extra(envoy), *_children(envoy), *_values(envoy)]
    name = envoy._name()
    if len(lines) == 1 and not envoy._child_map and lines[0] in _extra(envoy):
        return f"{name}({lines[0]})"
    return (
        "\n".join([f"{name}(", *("  " + line for entry in lines for line in entry.split("\n")), ")"])
        if lines
        else f"{name}()"
    )


def _numbered(listed: Any) -> Iterator[str]:
    """A list's entries; those that are alike are shown once, wherever they stand."""
    alike: dict[str, list[int]] = {}
    for number, child in enumerate(listed):
        alike.setdefault(tree(child), []).append(number)
    for shown, numbers in alike.items():
        many = f"{len(numbers)} x " if len(numbers) > 1 else ""
        yield f"({blocks(numbers)}): {many}{shown}"


def _extra(envoy: Any) -> list[str]:
    given = envoy._module.extra_repr()
    return given.split("\n") if given else []


def _children(envoy: Any) -> Iterator[str]:
    for name, child in envoy._named_children():
        names = [alias for alias, path in envoy._aliases.items() if path == name]
        yield f"({'/'.join([*names, name])}): {tree(child)}"
    for alias, path in envoy._aliases.items():
        if "." in path and alias not in envoy._child_map:
            yield f"({alias}): {path}, above"


def _values(envoy: Any) -> Iterator[str]:
    own = envoy.values().values() if isinstance(envoy, Standard) else ()
    yield from map(str, _of_nnsight(type(envoy)))
    for found in own:
        if found.reason(envoy) is None:
            said = envoy.remark(str(found.name))
            yield str(found) if said is None else f"{found} (note: {said})"
    missing = [str(found.name) for found in own if found.reason(envoy) is not None]
    if missing:
        yield f"(not here, see support()): {', '.join(missing)}"


def _of_nnsight(kind: type) -> list[Any]:
    """What nnsight itself shows of a kind of envoy: its properties that have a description."""
    shown: dict[str, Any] = {}
    for klass in kind.__mro__:
        for held in vars(klass).values():
            if isinstance(held, eproperty) and not isinstance(held, Value) and held.description is not None:
                shown.setdefault(held.name, held)
    return list(shown.values())
