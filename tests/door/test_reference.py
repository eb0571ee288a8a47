"""Every public name is in the reference."""

import re
from importlib import import_module

import pytest
from door.pages import ROOT
from door.test_pictures import loaded

import belvedere

made = loaded("_made")
REFERENCE = "\n".join(made.on_page_markdown(page.read_text()) for page in (ROOT / "docs/reference").glob("*.md"))
DIRECTIVE = re.compile(r"^::: (?P<path>[\w.]+)\n(?P<options>(?:    .*\n)*)", re.MULTILINE)


def written() -> set[str]:
    """Every path that has an entry; a module without a list of members stands for all of its names."""
    found = set()
    for directive in DIRECTIVE.finditer(REFERENCE + "\n"):
        path, options = directive["path"], directive["options"]
        members = re.findall(r"^ +- (\w+)$", options, re.MULTILINE)
        members += [name for names in re.findall(r"members: \[(.*)\]", options) for name in names.split(", ")]
        found |= {path, *(f"{path}.{name}" for name in members)}
        if not members and path.removeprefix("belvedere.").islower():
            module = import_module(path) if is_module(path) else None
            found |= {f"{path}.{name}" for name in getattr(module, "__all__", ())}
    return found


def is_module(path: str) -> bool:
    try:
        import_module(path)
    except ModuleNotFoundError:
        return False
    return True


WRITTEN = written()


def public() -> list[str]:
    """Every name at the door, and every name of a module at the door."""
    names = []
    for name in belvedere.__all__:
        held = getattr(belvedere, name)
        if hasattr(held, "__path__") or hasattr(held, "__file__"):
            names += [f"belvedere.{name}.{inner}" for inner in held.__all__]
        else:
            names.append(f"belvedere.{name}")
    # The names of layouts are a table of the vocabulary.
    return [name for name in names if not re.match(r"belvedere\.layouts\.[A-Z]", name)]


def homes(path: str) -> set[str]:
    """The paths by which an object may be written: where it is offered, and where it is made."""
    package, _, name = path.rpartition(".")
    held = getattr(import_module(package), name)
    made_in = getattr(held, "__module__", None)
    return {path, f"{made_in}.{name}"}


@pytest.mark.parametrize("path", public())
def test_a_public_name_is_in_the_reference(path):
    assert homes(path) & WRITTEN, f"{path} is on no page of docs/reference"


def test_every_entry_is_of_something():
    for directive in DIRECTIVE.finditer(REFERENCE + "\n"):
        package, _, name = directive["path"].rpartition(".")
        assert is_module(directive["path"]) or hasattr(import_module(package), name), directive["path"]
