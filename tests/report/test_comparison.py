"""Where checkpoints differ, against what each one's own `support()` says."""

import json

import pytest
from typer.testing import CliRunner

import belvedere
from belvedere import StandardizedTransformer
from belvedere.cli import app
from belvedere.report import compare, support_matrix, written
from belvedere.testing import ROWS

SHIPPED = ("shapes-llava", "shapes-qwen3_5")


def model(name):
    return StandardizedTransformer.from_config(ROWS[name].config())


def compared(*names):
    return compare(*(support_matrix(model(name), name) for name in names))


def run(*arguments):
    done = CliRunner().invoke(app, ["support", *map(str, arguments)], env={"COLUMNS": "240"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("pair", [("llava", "qwen3_5"), ("llava", "mllama"), ("qwen3_vl", "qwen3_vl_moe")])
def test_a_value_that_reads_on_one_only_is_a_difference(pair):
    found = compared(*pair)
    differing = {row.value for row in found.differences}
    left, right = (model(name).support() for name in pair)
    values = {*left, *right}
    assert differing <= values
    assert len(differing) + found.alike == len(values)
    for value in values:
        reads = [support.get(value, "not there") is None for support in (left, right)]
        lacks = [isinstance(support.get(value, "not there"), str) for support in (left, right)]
        if (reads[0] and lacks[1]) or (lacks[0] and reads[1]):
            assert value in differing
        if all(lacks):
            assert value not in differing


def test_a_checkpoint_does_not_differ_from_itself():
    found = compared("qwen3_5", "qwen3_5")
    assert found.differences == ()
    assert found.alike == len(model("qwen3_5").support())
    assert "They support the same values" in run("shapes-llava", "shapes-llava")


def test_a_value_read_elsewhere_or_in_another_layout_is_a_difference():
    rows = {row.value: row for row in compared("llava", "mllama").differences}
    parts = [one.part for one in rows["layers.attention_queries"].standings]
    assert parts == ["self_attn", "self_attn or cross_attn"]
    assert rows["layers.attention_queries"].in_parts
    left, right = rows["vision.global_layers.layer_output"].standings
    assert (left.state, right.state) == ("lacking", "served")
    assert "nothing in this checkpoint has it" in left.because


def test_a_shape_of_a_mixed_stack_says_which_blocks():
    rows = {row.value: row for row in compared("llava", "qwen3_5").differences}
    left, right = rows["layers.attention_probabilities"].standings
    assert (left.blocks, right.blocks) == ((), (1, 3))
    assert [(lack.blocks, "recurrent" in lack.reason) for lack in right.lacks] == [((0, 2), True)]


def test_every_format_names_every_difference_and_no_other_value():
    matrices = [
        support_matrix(StandardizedTransformer.from_config(belvedere.checkpoint(name)), name) for name in SHIPPED
    ]
    found = compare(*matrices)
    differing = [row.value for row in found.differences]
    held = json.loads(run(*SHIPPED, "--format", "json"))
    assert [one["checkpoint"] for one in held["checkpoints"]] == list(SHIPPED)
    assert [one["value"] for one in held["values"]] == differing
    assert held["alike"] == found.alike
    markdown = run(*SHIPPED, "--format", "markdown")
    assert [line.split("`")[1] for line in markdown.splitlines() if line.startswith("| `layers")] == [
        value for value in differing if value.startswith("layers")
    ]
    for format in ("terminal", "html"):
        text = written(found, format)
        assert all(value in text for value in differing)
        assert "layers.mlp_output" not in text
        assert "http" not in text
    assert run(*SHIPPED, "--format", "html") == written(found, "html")


def test_several_checkpoints_are_compared_together():
    found = compared("llava", "qwen3_5", "mllama")
    pairs = [compared("llava", "qwen3_5"), compared("llava", "mllama"), compared("qwen3_5", "mllama")]
    assert {row.value for row in found.differences} == {row.value for pair in pairs for row in pair.differences}
    assert all(len(row.standings) == 3 for row in found.differences)
