"""The door: what `import belvedere` offers, and what it does not load."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import belvedere
from belvedere import errors

PACKAGE = Path(belvedere.__file__).parent

#: Packages that no user imports.
INTERNAL = {
    "cli": "the command is its door",
    "locating": "its door is `model.layout`",
    "verifying": "its door is `model.verify`",
}


def test_the_names_are_sorted_and_each_is_there():
    assert belvedere.__all__ == sorted(belvedere.__all__)
    for name in belvedere.__all__:
        assert getattr(belvedere, name) is not None
    assert set(belvedere.__all__) <= set(dir(belvedere))


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="'belvedere' has no attribute 'telescope'"):
        belvedere.telescope  # noqa: B018


def test_type_checkers_see_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.name for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(seen) == belvedere.__all__


def test_every_error_and_every_package_is_at_the_door():
    packages = {found.parent.name for found in PACKAGE.glob("*/__init__.py")}
    assert INTERNAL.keys() <= packages
    assert packages - INTERNAL.keys() <= set(belvedere.__all__)
    assert set(errors.__all__) <= set(belvedere.__all__)


def modules():
    found = (path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in found]


@pytest.mark.parametrize("name", modules())
def test_a_module_lists_what_it_has(name):
    module = import_module(name)
    listed = getattr(module, "__all__", ())
    assert len(set(listed)) == len(listed)
    for entry in listed:
        assert hasattr(module, entry), entry


def loaded(code: str, pattern: str) -> list[str]:
    """The modules of a pattern that are there after some code has run in a process of its own."""
    code = f"{code}\nimport sys\nprint(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if re.match(pattern, name)]


MODELING = r"transformers\.models\..*\.modeling_"


def test_importing_loads_nothing_heavy():
    assert not loaded("import belvedere", r"transformers|torch|nnsight|matplotlib|PIL|typer")


def test_no_part_loads_a_modeling_file_or_matplotlib():
    code = """
        import belvedere
        from belvedere import families
        for name in belvedere.__all__:
            if name not in ("plot", "testing"):
                getattr(belvedere, name)
        for shelf in families.PARTS:
            for model_type in families.known(shelf):
                families.lookup(shelf, model_type)
    """
    assert not loaded("\n".join(line.removeprefix(" " * 8) for line in code.splitlines()), f"{MODELING}|matplotlib")


def test_the_command_s_help_loads_no_torch():
    assert not loaded("import belvedere.cli", r"transformers|torch$|nnsight|matplotlib")
