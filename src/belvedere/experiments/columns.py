"""The columns of a map: which positions, and which heads, a cell changes together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere.errors import InputError
from belvedere.experiments.maps import named
from belvedere.experiments.numbers import whole
from belvedere.experiments.pairs import Groups, Pair, image_tokens
from belvedere.experiments.runs import Side
from belvedere.experiments.sites import Site
from belvedere.experiments.where import Inside, Where, is_one, numbers_in, positions_of, spoken

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["Columns", "Heads", "Positions", "columns_of", "units_at"]

#: One set of positions, or several, each a column; numbers of a list are a column each.
Positions = Where | Iterable[Where]
#: A head, or heads and groups of heads, each a column.
Heads = int | Iterable[int | Iterable[int]]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What each column of a map changes together.

    Args:
        positions: By column, the positions.
        heads: By column, the heads; empty where the value has none.
        names: What each column is called; empty where its positions say it.
        units: By column, the units of the site.
    """

    positions: Groups
    heads: Groups = ()
    names: tuple[str, ...] = ()
    units: Groups

    @property
    def labels(self) -> dict[str, Any]:
        """The fields of a result that say what its columns are."""
        return {"positions": self.positions, "heads": self.heads, "names": self.names}


def columns_of(
    model: StandardizedTransformer,
    pair: Pair,
    site: Site,
    positions: Positions | None,
    heads: Heads | None = None,
) -> Columns:
    """The columns that someone asks for.

    Args:
        model: The model.
        pair: The two inputs, of which the clean one says where a box of the picture is.
        site: The value.
        positions: Sets of positions; by default each of the usual ones alone, or all together for a value with heads.
        heads: The heads; by default each alone.

    Raises:
        InputError: There is no such position or head, or the value has no heads.
    """
    if not site.by_head:
        if heads is not None:
            raise InputError(f"{site.path} has no heads; leave `heads` out, or patch layers.attention_head_outputs")
        groups, names = _groups(model, pair, site, positions)
        return Columns(positions=groups, names=names, units=units_at(model, pair.corrupt, site, groups))
    rows = _heads(site, heads)
    named_so = positions is not None or site.is_state
    if positions is None:
        positions = [_behind_pictures(model, pair)] if site.is_state else "all"
    groups, names = _groups(model, pair, site, positions)
    if site.is_state and any(len(group) != 1 for group in groups):
        raise InputError(f"{site.path} is the state that one position finds; pass numbers, or 'last'")
    names = names or tuple(named(group) for group in groups)
    columns = [(group, name, chosen) for group, name in zip(groups, names, strict=True) for chosen in rows]
    return Columns(
        positions=tuple(group for group, _, _ in columns),
        heads=tuple(chosen for _, _, chosen in columns),
        names=tuple(f"head {spoken(chosen)}" + (f" at {name}" if named_so else "") for _, name, chosen in columns),
        units=tuple(
            tuple(number * site.heads + head for number in group for head in chosen) for group, _, chosen in columns
        ),
    )


def _groups(
    model: StandardizedTransformer, pair: Pair, site: Site, positions: Positions | None
) -> tuple[Groups, tuple[str, ...]]:
    """The positions of each column, and what the columns are called where numbers do not say it."""
    length = pair.length(model, site)
    if positions is None:
        return tuple((number,) for number in pair.usual(model, site)), ()
    given: Any = positions
    entries: list[Where] = [given] if is_one(given) else list(given)
    groups = tuple(_group(model, pair, site, entry, length) for entry in entries)
    if not groups or not all(groups):
        raise InputError("`positions` is empty or has an empty group; pass numbers, lists of numbers, or names")
    refuse_repeated("position", groups)
    spelled = any(isinstance(entry, (str, Inside)) for entry in entries)
    names = tuple(
        str(entry) if isinstance(entry, (str, Inside)) else named(group)
        for entry, group in zip(entries, groups, strict=True)
    )
    return groups, names if spelled else ()


def _group(model: StandardizedTransformer, pair: Pair, site: Site, entry: Where, length: int) -> tuple[int, ...]:
    if isinstance(entry, (str, Inside)):
        return positions_of(model, pair.clean, entry, tower=site.is_tower)
    return numbers_in(entry, length, tower=site.is_tower)


def refuse_repeated(what: str, groups: Groups) -> None:
    """Two columns of the same, of which one would be a copy of the other.

    Raises:
        InputError: There are such.
    """
    twice = next((group for number, group in enumerate(groups) if group in groups[:number]), None)
    if twice is not None:
        raise InputError(f"{what} {spoken(twice)} is asked for twice; pass each once")


def _behind_pictures(model: StandardizedTransformer, pair: Pair) -> int:
    """The first position behind all pictures, or the last one where there is none."""
    tokens = image_tokens(model, pair.corrupt).tolist()
    return min(tokens[-1] + 1, pair.corrupt.last) if tokens else pair.corrupt.last


def units_at(model: StandardizedTransformer, side: Side, site: Site, groups: Groups) -> Groups:
    """The units at positions: these themselves, all heads there, or the features that are written over them.

    Raises:
        InputError: Features are asked for at a position that is no image token.
    """
    if not site.is_features:
        heads = range(site.heads)
        return tuple(tuple(number * site.heads + head for number in group for head in heads) for group in groups)
    tokens = image_tokens(model, side).tolist()
    order = {number: row for row, number in enumerate(tokens)}
    others = [number for group in groups for number in group if number not in order]
    if others:
        raise InputError(
            f"position {others[0]} is no image token, and {site.path} is written over image tokens alone; the image "
            f"tokens are {spoken(tokens)}"
        )
    return tuple(tuple(order[number] for number in group) for group in groups)


def _heads(site: Site, heads: Heads | None) -> Groups:
    entries = range(site.heads) if heads is None else list(heads) if isinstance(heads, Iterable) else [heads]
    groups = tuple(tuple(whole(entry, "heads")) for entry in entries)
    if not groups or not all(groups):
        raise InputError("`heads` is empty or has an empty group; pass numbers, or lists of numbers")
    outside = [head for group in groups for head in group if not -site.heads <= head < site.heads]
    if outside:
        raise InputError(f"there is no head {outside[0]}; {site.path} has {site.heads}, 0 to {site.heads - 1}")
    found = tuple(tuple(dict.fromkeys(head % site.heads for head in group)) for group in groups)
    refuse_repeated("head", found)
    return found
