"""Which part of the package knows which, and how large a part may be."""

import ast
from pathlib import Path

import pytest

import belvedere

PACKAGE = Path(belvedere.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: From those that know nothing to those that know everything; a part may import parts of earlier lines.
LAYERS = (
    ("spelling",),
    ("errors",),
    ("geometry", "gradients", "head", "interleaving", "kernels", "operations", "select", "shapes", "sizes"),
    ("edits", "interventions", "layouts", "staged"),
    ("written",),
    ("descriptors",),
    ("components",),
    ("families",),
    ("loading", "pictures"),
    ("inputs", "locating"),
    ("batching", "contract"),
    ("standardized",),
    ("experiments", "plot", "testing"),
    ("verifying",),
    ("draft", "report"),
    ("cli",),
)
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}
#: A part that draws its own results imports plots where it does so; the root loads what verifies it when it is asked.
BESIDE = {("experiments", "plot"), ("contract", "verifying")}

MODULE_LINES = 400
FUNCTION_LINES = 60
ENTRY_LINES = 25
#: Functions and modules over their budget, each with the reason.
OVER: dict[str, str] = {}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[int, str]]:
    """``(line, module)`` of every import that runs, those inside functions among them."""
    tree = ast.parse(path.read_text())
    checked = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = {id(inner) for node in checked for inner in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def own(module: str) -> str:
    """The part of the package that an import names; empty for another package."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == "belvedere" else ""


def test_every_part_has_a_layer():
    parts = {part(path) for path in FILES} - {"__init__"}
    assert parts == set(RANK)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_knowledge_runs_one_way(path):
    here = part(path)
    if here == "__init__":
        assert not [line for line, module in imports(path) if own(module)]
        return
    for line, module in imports(path):
        there = own(module)
        if there in RANK and there != here and (here, there) not in BESIDE:
            assert RANK[there] < RANK[here], f"{name(path)}:{line} imports {module}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "families").glob("*/*.py")), ids=name)
def test_an_entry_imports_components_and_facts_only(path):
    for line, module in imports(path):
        allowed = module.startswith(("belvedere.components.", "belvedere.families.facts.", "belvedere.families."))
        assert allowed or not module.startswith("belvedere"), f"{name(path)}:{line} imports {module}"
        assert "modeling_" not in module, f"{name(path)}:{line} imports {module}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "components").glob("*.py")), ids=name)
def test_components_import_no_modeling_file(path):
    for line, module in imports(path):
        assert not module.startswith("transformers.models"), f"{name(path)}:{line} imports {module}"


def module_lines() -> dict[str, int]:
    return {name(path): len(path.read_text().splitlines()) for path in FILES}


def function_lines() -> dict[str, int]:
    return {
        f"{name(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_modules_and_functions_fit_their_budgets():
    modules = {where for where, lines in module_lines().items() if lines > MODULE_LINES}
    functions = {where for where, lines in function_lines().items() if lines > FUNCTION_LINES}
    # Equal, and not only contained: an exception that is no longer needed goes.
    assert modules | functions == set(OVER)


@pytest.mark.parametrize("path", sorted((PACKAGE / "families").glob("*/*.py")), ids=name)
def test_an_entry_without_a_subclass_is_data(path):
    text = path.read_text()
    if not any(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(text))):
        assert len(text.splitlines()) <= ENTRY_LINES
    assert not any(isinstance(node, ast.FunctionDef) for node in ast.parse(text).body)
