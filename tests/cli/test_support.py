"""`belvedere support` and `belvedere families`: what they print, and what they say when they cannot."""

import json

import pytest
from typer.testing import CliRunner

import belvedere
from belvedere import StandardizedTransformer, families
from belvedere.cli import app
from belvedere.testing import ROWS


@pytest.fixture(params=list(ROWS))
def folder(request, tmp_path):
    ROWS[request.param].config().save_pretrained(tmp_path / request.param)
    return tmp_path / request.param


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit)
    return done.stderr


def listed(folder):
    """Every value's reason on every block, as the model itself lists them."""
    model = StandardizedTransformer.from_config(str(folder))
    counts = {"layers.": len(model.layers)}
    if model.family.tower:
        counts |= {f"vision.{name}.": len(getattr(model.vision, name)) for name in model.vision.LISTS}
    flat = {}
    for name, held in model.support().items():
        count = next((counts[prefix] for prefix in counts if name.startswith(prefix)), 0)
        for block in range(count) or [None]:
            flat[name, block] = held.get(block) if isinstance(held, dict) else held
    return flat


def test_the_json_is_what_support_lists_block_by_block(folder):
    held = json.loads(run("support", folder, "--format", "json"))
    flat = {
        (entry["value"], block): cell["reason"]
        for group in held["groups"]
        for entry in group["values"]
        for column, cell in zip(group["columns"], entry["cells"], strict=True)
        for block in column["blocks"] or [None]
    }
    assert flat == listed(folder)


def test_the_blocks_of_a_mixed_stack_fold_into_their_two_kinds(tmp_path):
    ROWS["qwen3_5"].config().save_pretrained(tmp_path)
    held = json.loads(run("support", tmp_path, "--format", "json"))
    (blocks,) = (group for group in held["groups"] if group["title"] == "Text blocks")
    assert [column["label"] for column in blocks["columns"]] == ["blocks 0, 2", "blocks 1, 3"]
    (scores,) = (entry for entry in blocks["values"] if entry["value"] == "layers.attention_scores")
    assert "recurrent" in scores["cells"][0]["reason"]
    (reading,) = (cell for cell in scores["cells"] if cell["reason"] is None)
    assert reading is scores["cells"][1]
    assert reading["shape"] == "[batch, heads, seq, keys]"
    assert "arguments of the attention's own call" in reading["recomputed"]
    assert scores["part"] == "self_attn"


@pytest.mark.parametrize("format", ["terminal", "markdown", "html"])
def test_every_format_names_every_value_and_numbers_every_reason(folder, format):
    text = run("support", folder, "--format", format)
    reasons = list(dict.fromkeys(reason for reason in listed(folder).values() if reason is not None))
    assert all(name in text for name, _ in listed(folder))
    if format == "terminal":
        assert all(reason.split()[0] in text for reason in reasons)
        assert f"no ({len(reasons)})" in text
    if format == "markdown":
        assert all(f"{number}. {reason}" in text for number, reason in enumerate(reasons, 1))
        assert len({line.count("|") for line in text.splitlines() if line.startswith("| `layers.")}) == 1
    if format == "html":
        assert text.count('<li id="reason-') == len(reasons)
        assert "<script" not in text
        assert "http" not in text


def test_a_config_file_is_a_checkpoint_too(folder):
    whole = json.loads(run("support", folder, "--format", "json"))
    alone = json.loads(run("support", folder / "config.json", "--format", "json"))
    assert alone["groups"] == whole["groups"]


def test_out_writes_the_file_and_says_so(folder, tmp_path):
    printed = run("support", folder, "--format", "markdown", "--out", tmp_path / "matrix.md")
    assert printed.strip() == f"wrote {tmp_path / 'matrix.md'}"
    assert (tmp_path / "matrix.md").read_text() == run("support", folder, "--format", "markdown")


def test_a_text_model_says_why_it_shows_no_vision(tmp_path):
    ROWS["llama"].config().save_pretrained(tmp_path)
    assert "No pictures: llama is a text model and has no tower" in run("support", tmp_path)


def test_a_checkpoint_that_is_not_there_is_refused(tmp_path):
    assert "there is no file or folder '/nowhere'" in refused("support", "/nowhere")
    assert "no config at 'nobody/nothing'" in refused("support", "nobody/nothing")
    assert "no config at" in refused("support", tmp_path)


def test_a_family_that_is_not_known_is_refused_with_those_that_are(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bloom", "architectures": ["BloomForCausalLM"]}))
    assert "no text entry for model_type 'bloom'" in refused("support", tmp_path)


def test_a_file_that_cannot_be_written_is_refused(folder):
    assert "cannot be written" in refused("support", folder, "--out", "/nowhere/matrix.md")


def test_a_format_that_is_not_known_is_refused(folder):
    assert "markdown" in refused("support", folder, "--format", "yaml")


def test_families_lists_every_shelf():
    text = run("families")
    for shelf in families.PARTS:
        assert all(name in text for name in families.known(shelf))
    assert "gated DeltaNet blocks" in text


def test_version():
    assert run("--version").strip() == f"belvedere {belvedere.__version__}"
