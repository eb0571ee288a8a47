"""`belvedere support --all`: every model type of transformers, and every cell what `support()` says."""

import json
import re
from importlib.metadata import version

import pytest
from fielded import field, types
from transformers import AutoConfig, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as MAPPED
from typer.testing import CliRunner

from belvedere import StandardizedTransformer, UnsupportedFamily, families, report
from belvedere.cli import app
from belvedere.testing import ROWS

NAMES = sorted({*MAPPED, *families.known("wrappers")})
#: Values that no forward makes under a fused kernel.
PATTERNS = {"attention_scores", "attention_probabilities", "segment_probabilities"}


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["support", *map(str, arguments)], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def built_once(monkeypatch):
    """The command with the field that is there already, which was built through its bar."""
    monkeypatch.setattr(report, "survey", lambda watch: list(watch(NAMES)) and field())


def asked(name):
    """A model of that type as the field should have it: by its default config, or by the zoo's where it says so."""
    config = ROWS[name].config() if types()[name].state == "tiny" else AutoConfig.for_model(name)
    return StandardizedTransformer.from_config(config, task="image-text-to-text")


def test_every_type_has_a_row():
    assert [one.name for one in field().types] == NAMES
    assert len(NAMES) >= 100


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_what_support_says_or_what_loading_raises(name):
    row = types()[name]
    if row.state == "missing":
        with pytest.raises(UnsupportedFamily) as raised:
            StandardizedTransformer.from_config(AutoConfig.for_model(name))
        assert str(raised.value).startswith(f"{row.reason}; known: ")
        assert row.cause in row.reason
        assert row.cause == families.DECLINED[name]
        assert not row.standings
        return
    model = asked(name)
    support, blocks = model.support(), {"layers": len(model.layers)}
    if row.state != "text":
        assert row.parts == vars(model.family)
        blocks |= {f"vision.{listed}": len(getattr(model.vision, listed)) for listed in model.vision.LISTS}
    assert set(support) <= set(row.standings) == set(field().values)
    for value, standing in row.standings.items():
        if value not in support:
            assert standing.state == "lacking"
            assert all(lack.reason for lack in standing.lacks)
            continue
        count = blocks.get(value.rpartition(".")[0], 1)
        assert lacking(standing, count) == flat(support[value], count), value
        assert set(standing.blocks) == ({*range(count)} - set(support[value]) if standing.kind == "some" else set())


def flat(reason, count):
    """Each block's reason, of what `support()` says."""
    return {number: reason.get(number) if isinstance(reason, dict) else reason for number in range(count)}


def lacking(standing, count):
    """Each block's reason, of what the field says."""
    found = dict.fromkeys(range(count))
    for lack in standing.lacks:
        found |= dict.fromkeys(lack.blocks or range(count), lack.reason)
    return found


def test_what_is_recomputed_is_what_no_forward_makes():
    for one in field().types:
        for value, standing in one.standings.items():
            name = value.rpartition(".")[2]
            # Llama 4 alone runs every expert on every token.
            made = name in PATTERNS or name == "next_token_probs" or (name == "expert_outputs" and one.name != "llama4")
            if standing.state != "lacking":
                assert (standing.state == "recomputed") == made, (one.name, value)


def test_a_missing_row_names_the_parts_that_its_config_has():
    for name, row in types().items():
        config = AutoConfig.for_model(name) if row.state == "missing" else None
        tower = getattr(getattr(config, "vision_config", None), "model_type", None)
        assert tower is None or row.parts["tower"] == tower
        for part in row.unknown:
            assert row.parts[part] not in families.known({"tower": "towers", "wrapper": "wrappers"}.get(part, part))
            assert f"{row.parts[part]!r}" in row.says
    assert types()["aria"].parts == {"wrapper": "aria", "tower": "idefics3_vision", "text": "aria_text"}
    assert types()["aria"].unknown == ("wrapper", "text")


def test_a_default_config_that_transformers_cannot_build_is_said_and_the_tiny_one_shown():
    row = types()["aya_vision"]
    with pytest.raises(ValueError, match="embed_dim") as raised:
        AutoModelForImageTextToText.from_config(AutoConfig.for_model("aya_vision"))
    assert str(raised.value).splitlines()[0].rstrip(". ") in row.note
    assert row.state == "tiny"
    assert types()["gemma4"].state == "tiny"
    assert "has no vision_config" in types()["gemma4"].note


def test_a_text_model_in_the_mapping_is_served_as_one():
    row = types()["mistral4"]
    assert (row.state, row.parts["text"], row.parts["tower"]) == ("text", "mistral4", "")
    assert "Mistral4ForCausalLM" in row.note
    assert row.standings["layers.attention_probabilities"].state == "recomputed"
    assert row.standings["vision.image_features"].because == row.note


@pytest.mark.usefixtures("built_once")
def test_the_json_keeps_its_schema():
    held = json.loads(run("--all", "--format", "json"))
    assert held == json.loads(report.written(field(), "json"))
    assert set(held) == {"versions", "values", "types"}
    assert set(held["versions"]) == {"belvedere", "transformers", "torch", "nnsight", "python"}
    parts = {"wrapper", "tower", "text", "projector", "unknown"}
    for one in held["types"]:
        assert set(one) == {"model_type", "state", *parts, "missing", "cause", "note", "values"}
        assert (one["missing"] is None) == (one["state"] != "missing") == bool(one["values"])
        for cell in one["values"].values():
            assert set(cell) == {"state", "blocks", "part", "shape", "recomputed", "reasons"}
            assert (cell["state"] == "lacking") <= bool(cell["reasons"])


@pytest.mark.usefixtures("built_once")
def test_the_markdown_is_one_table_with_every_cell():
    text = run("--all", "--format", "markdown")
    head, _, *lines = [line for line in text.splitlines() if line.startswith("|")]
    reasons = dict(re.findall(r"^(\d+)\. (.*)$", text, re.MULTILINE))
    values = [cell.strip() for cell in head.split("|")][6:-1]
    assert values == list(field().values)
    for line, one in zip(lines, field().types, strict=True):
        name, *_, state = [cell.strip() for cell in line.split("|")][1:6]
        cells = [cell.strip() for cell in line.split("|")][6:-1]
        assert name == f"`{one.name}`"
        assert [reasons[number] for number in re.findall(r"\((\d+)\)$", state)] == ([one.says] if one.says else [])
        for value, cell in zip(values, cells, strict=True):
            if not one.standings:
                assert cell == ""
                continue
            standing = one.standings[value]
            assert cell.startswith({"served": "yes", "recomputed": "recomputed", "lacking": "no"}[standing.state])
            given = "".join(re.findall(r"\((.*)\)", cell)).split(", ")
            assert [reasons[number] for number in given if number] == [lack.reason for lack in standing.lacks]


@pytest.mark.usefixtures("built_once")
def test_the_terminal_has_a_line_for_each_type():
    text = run("--all")
    for one in field().types:
        (line,) = re.findall(rf"^│ {re.escape(one.name)} .*$", text, re.MULTILINE)
        assert one.parts["tower"] in line
        assert (f"{one.counts['served']} served" in line) == bool(one.standings)
        assert all(part in line for part in one.unknown)
    states = [one.state for one in field().types]
    assert f"{len(states)} model types: {states.count('served')} served; " in text
    assert f"; {states.count('missing')} not served. {len(field().values)} values." in text


@pytest.mark.usefixtures("built_once")
def test_out_writes_the_page(tmp_path):
    assert run("--all", "--format", "html", "--out", tmp_path / "field.html").strip() == f"wrote {tmp_path}/field.html"
    assert (tmp_path / "field.html").read_text() == report.written(field(), "html")


@pytest.mark.parametrize("format", ["terminal", "markdown", "json", "html"])
def test_what_is_installed_stands_under_any_form(format):
    for asked in ([], ["shapes-llava"], ["shapes-llava", "shapes-qwen3_5"]):
        text = run(*asked, "--transformers-report", "--format", format)
        assert version("transformers") in text
        assert version("nnsight") in text
        assert "aria" in text
        assert "versions" in text


def test_the_report_names_what_either_side_does_not_know(monkeypatch):
    known = report.transformers_report()
    assert known.new == ()
    assert set(known.without_entry) == set(families.DECLINED)
    assert not any(known.unknown.values())
    monkeypatch.setitem(MAPPED, "brand_new_vl", "BrandNewVLForConditionalGeneration")
    monkeypatch.setitem(families._registered["towers"], "bygone_vision", object())
    held = json.loads(run("--transformers-report", "--format", "json"))["transformers_report"]
    assert held["new"] == ["brand_new_vl"]
    assert "brand_new_vl" in held["without_entry"]
    assert held["unknown"] == {"text": [], "towers": ["bygone_vision"], "wrappers": []}


def test_a_type_that_transformers_cannot_even_configure_is_a_row(monkeypatch):
    from belvedere.report import field as module

    monkeypatch.setattr(module, "image_text_types", lambda: ("no_such_type",))
    monkeypatch.setattr(families, "known", lambda shelf: ())
    (row,) = report.survey().types
    assert (row.name, row.state) == ("no_such_type", "missing")
    assert "no_such_type" in row.reason


def test_a_fault_that_is_not_transformers_own_is_not_called_so(monkeypatch):
    from belvedere.report import field as module

    def broken(config, **_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(module, "image_text_types", lambda: ("llava",))
    monkeypatch.setattr(families, "known", lambda shelf: ())
    monkeypatch.setattr(module.StandardizedTransformer, "from_config", broken)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        report.survey()


def test_what_cannot_be_asked_is_refused(tmp_path):
    assert "--all, for every model type" in run(code=2)
    assert "leave out shapes-llava" in run("shapes-llava", "--all", code=2)
    assert "in a folder that is there" in run("--all", "--out", tmp_path / "nowhere" / "field.html", code=2)
    assert "in a folder that is there" in run("--all", "--out", tmp_path, code=2)
