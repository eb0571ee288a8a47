"""Every entry on a shelf has a row in the zoo, every row its entries, and no key of a table is dead."""

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from belvedere import StandardizedTransformer, components, families
from belvedere.components import Stack
from belvedere.testing import ROWS

ZOO = "src/belvedere/testing/zoo"


def files(shelf: str) -> list[str]:
    """The entries of the package itself, whatever a test has registered beside them."""
    return [found.name for found in pkgutil.iter_modules(import_module(f"belvedere.families.{shelf}").__path__)]


@cache
def model(row: str) -> StandardizedTransformer:
    return StandardizedTransformer.from_config(ROWS[row].config(), task=ROWS[row].task)


def stacks(row: str) -> dict[str, Stack]:
    """The row's stacks, by shelf."""
    found = {"text": model(row).get(model(row)._mounts_path())}
    return found if not ROWS[row].tower else {**found, "towers": model(row).vision}


def rows_of(shelf: str, entry: str) -> list[str]:
    part = families.PARTS[shelf]
    return [row for row in ROWS if getattr(model(row).family, part) == entry and (shelf == "text" or ROWS[row].tower)]


ENTRIES = [(shelf, entry) for shelf in families.PARTS for entry in files(shelf)]
TABLES = [(shelf, entry) for shelf, entry in ENTRIES if shelf != "wrappers"]


@pytest.mark.parametrize(("shelf", "entry"), ENTRIES)
def test_every_entry_has_a_row(shelf, entry):
    assert rows_of(shelf, entry), f"families/{shelf}/{entry}.py has no row; add one to {ZOO}"


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_its_entries(row):
    family = model(row).family
    for shelf, part in families.PARTS.items():
        entry = getattr(family, part)
        assert entry is None or entry in files(shelf), f"{ZOO}: {row} needs families/{shelf}/{entry}.py"
    for shelf, stack in stacks(row).items():
        assert stack.config.model_type == getattr(family, families.PARTS[shelf])


@pytest.mark.parametrize(("shelf", "entry"), ENTRIES)
def test_an_entry_begins_with_what_sets_it_apart(shelf, entry):
    first = (families.lookup(shelf, entry).__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert "`" in first, "name the transformers class"


def renamed(stack: Stack, native: str, standard: str) -> bool:
    """Whether a native name stands below the stack, and answers to its standard name there."""
    for path, _ in stack._module.named_modules():
        if f".{path}".endswith(f".{native}"):
            above = path.removesuffix(native).rstrip(".")
            parent = stack.get(above) if above else stack
            if getattr(parent, standard) is stack.get(path):
                return True
    return False


def served(stack: Stack, pattern: str, envoy: type | components.Having) -> bool:
    """Whether an envoy of this very class, or of one of those to choose from, stands at a place of the pattern."""
    above, listed, part = pattern.partition("layers.*")
    if not listed:
        return type(stack.get(pattern)) is envoy
    blocks = stack.get(f"{above}layers")
    hosts = [vars(block).get(part.lstrip(".")) if part else block for block in blocks]
    classes = (envoy.envoy, envoy.otherwise) if isinstance(envoy, components.Having) else (envoy,)
    return any(type(host) in classes for host in hosts)


@pytest.mark.parametrize(("shelf", "entry"), TABLES)
def test_no_name_is_dead(shelf, entry):
    on = [stacks(row)[shelf] for row in rows_of(shelf, entry)]
    for native, standard in families.lookup(shelf, entry).RENAME.items():
        assert any(renamed(stack, native, standard) for stack in on), f"{shelf}/{entry}: {native!r} fits no module"


@pytest.mark.parametrize(("shelf", "entry"), TABLES)
def test_no_envoy_is_dead(shelf, entry):
    shared = components.TEXT_BLOCK if shelf == "text" else components.VISION_BLOCK
    everywhere = [found[shelf] for row in ROWS if shelf in (found := stacks(row))]
    for pattern, envoy in families.lookup(shelf, entry).ENVOYS.items():
        # A key of the shared table may be another family's; one that an entry sets itself is its own.
        on = everywhere if shared.get(pattern) is envoy else [stacks(row)[shelf] for row in rows_of(shelf, entry)]
        assert any(served(stack, pattern, envoy) for stack in on), f"{shelf}/{entry}: {pattern!r} serves nothing"


def test_every_component_is_used():
    """An envoy that no row of the zoo has is not tested by any."""
    used = {type(envoy) for row in ROWS for stack in stacks(row).values() for envoy in stack.modules()}
    used |= {type(model(row).scatter) for row in ROWS}
    bases = {base for klass in used for base in klass.__mro__}
    exported = {getattr(components, name) for name in components.__all__ if isinstance(getattr(components, name), type)}
    assert exported - bases == {components.NoVision, components.Having, components.Beside}


def test_the_zoo_is_where_messages_say():
    assert (Path(__file__).parents[2] / ZOO).is_dir()
