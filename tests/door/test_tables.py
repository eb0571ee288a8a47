"""The documentation's tables are the code's, and the README names what is there."""

import importlib.util
import re
import shlex

import pytest
from door.pages import PAGES, ROOT, blocks, name
from typer.main import get_command

from belvedere import StandardizedTransformer, components
from belvedere.cli import app
from belvedere.components import Standard
from belvedere.descriptors import Value

README = ROOT / "README.md"
HOSTS = [
    StandardizedTransformer,
    *(held for held in vars(components).values() if isinstance(held, type) and issubclass(held, Standard)),
]


@pytest.fixture(scope="module")
def hooks():
    made = importlib.util.spec_from_file_location("hooks", ROOT / "docs/_hooks.py")
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


def asked(hooks) -> list[tuple[str, tuple[str, ...]]]:
    """Every table that a page asks for."""
    found = [hooks.MARKER.finditer(page.read_text()) for page in PAGES]
    return [(one["table"], tuple(one["arguments"].split())) for page in found for one in page]


def test_each_table_stands_on_one_page(hooks):
    tables = asked(hooks)
    assert len(set(tables)) == len(tables)
    assert {table for table, _ in tables} == set(hooks.TABLES)


def test_every_line_that_looks_like_a_marker_is_one(hooks):
    for page in PAGES:
        text = page.read_text()
        assert text.count("<!-- generated") == len(hooks.MARKER.findall(text)), name(page)


def test_every_value_has_a_line_with_its_shape(hooks):
    written = "\n".join(hooks.TABLES[table](*arguments) for table, arguments in asked(hooks))
    for host in HOSTS:
        for key, found in host.values().items():
            assert f"`{key}`" in written, f"{host.__name__}.{key} is on no page"
            if found.at != "" and found.layout in hooks.layouts.__all__:
                shape = hooks.layouts.shape(found.layout)
                assert f"| `{key}` | `{found.layout}` `{shape}` |" in written, f"{host.__name__}.{key}"


def test_every_table_is_a_table(hooks):
    for table, arguments in asked(hooks):
        head, rule, *rows = hooks.TABLES[table](*arguments).partition("\n\n")[0].splitlines()
        assert rows, (table, arguments)
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in (head, rule, *rows)} == {head.count("|")}


def vocabulary() -> set[str]:
    """The names in the README's table of names and values."""
    section = README.read_text().partition("## Names and values")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return {found for row in rows for found in re.findall(r"`\.?(\w+)`", row)}


def test_the_readme_names_only_what_is_there():
    values = {key for host in HOSTS for key in host.values()}
    parts = {"model", "vision", "projector", "embed_tokens", "norm", "lm_head", "layers", "patch_embed"}
    parts |= {"self_attn", "linear_attn", "cross_attn", "conv", "mlp", "input_layernorm", "post_attention_layernorm"}
    assert vocabulary() - values <= parts


def test_the_readme_names_every_value_that_a_known_family_has():
    plain = (components.Layer, components.Attention, components.Mlp, components.Vision, StandardizedTransformer)
    values = {key for host in plain for key, found in host.values().items() if has(found)}
    # The twins for video, and the size of the input, are left to the documentation.
    assert values - vocabulary() <= {"video_token_mask", "video_features", "input_size"}


def has(found: Value) -> bool:
    return found.at != ""


def commands(language: str = "bash") -> list[list[str]]:
    """The commands of the README, comments cut off; a line may hold several."""
    text = README.read_text()
    lines = [line for block in blocks(README) if block.language == language for line in block.code.splitlines()]
    lines += re.findall(r"^    (python -m pip .*)$", text.partition("\n## ")[0], re.MULTILINE)
    split = [re.split(r"\s+#", line)[0].split("&&") for line in lines]
    return [shlex.split(one) for line in split for one in line]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_command_of_the_readme_exists(command):
    program, *arguments = command
    if program == "belvedere":
        subcommand = get_command(app).commands[arguments[0]]
        options = {option for parameter in subcommand.params for option in parameter.opts}
        assert {given for given in arguments if given.startswith("--")} <= options | {"--help"}
    elif program == "python":
        assert arguments[:3] == ["-m", "pip", "install"]
        extras = re.findall(r"\[(\w+)\]", arguments[-1])
        declared = (ROOT / "pyproject.toml").read_text()
        assert all(re.search(rf"^{extra} = \[", declared, re.MULTILINE) for extra in extras)
    elif program.startswith("scripts/"):
        assert (ROOT / program).stat().st_mode & 0o111
    else:
        assert program in {"pytest", "mkdocs"}


def test_the_readme_opens_with_the_two_commands_and_ci_types_the_second():
    first = README.read_text().splitlines()[2:4]
    assert first == [
        "    python -m pip install -e . && belvedere demo",
        "    python -m pip install -e '.[test]' && pytest",
    ]
    assert "python -m pip install -e '.[test]'" in (ROOT / ".ci/run").read_text()
