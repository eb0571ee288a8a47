"""What `support()` says of a path that it lacks, and what the matrix says of where a value is and how it is made."""

import json
import pickle

import pytest

from belvedere import StandardizedTransformer
from belvedere.report import FORMATS, support_matrix
from belvedere.testing import ROWS


def made(row):
    return StandardizedTransformer.from_config(ROWS[row].config())


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("layers.self_attn.attention_probabilities", "'layers.attention_probabilities'"),
        ("layers[3].self_attn.attention_probabilities", "'layers.attention_probabilities'"),
        ("vision.layers[0].mlp.mlp_output", "'vision.layers.mlp_output'"),
        ("layer_input", "'layers.layer_input' or 'vision.layers.layer_input'"),
        ("vision.image_feature", "'vision.image_features'"),
    ],
)
def test_a_path_that_support_lacks_names_the_nearest(llava, path, meant):
    with pytest.raises(KeyError) as raised:
        llava.model.support()[path]
    assert f"no value {path!r} here; did you mean {meant}" in raised.value.args[0]
    assert path not in llava.model.support()
    assert llava.model.support().get(path) is None


def test_a_path_like_no_other_is_refused_without_a_guess(llava):
    with pytest.raises(KeyError) as raised:
        llava.model.support(layer=0)["zzz"]
    assert raised.value.args == ("no value 'zzz' here",)


def test_support_is_a_dictionary_that_can_be_kept(llava):
    support = llava.model.support()
    assert pickle.loads(pickle.dumps(support)) == support == dict(support)
    assert json.loads(json.dumps(support)) == support


def cells(model):
    """Every row of a matrix, by value."""
    return {row.value: row for group in support_matrix(model, "it").groups for row in group.rows}


def test_the_matrix_says_from_which_part_a_value_is_read():
    rows = cells(made("mllama"))
    assert rows["layers.attention_probabilities"].part == "self_attn or cross_attn"
    assert rows["layers.mlp_output"].part == "mlp"
    assert rows["layers.layer_output"].part == ""
    assert rows["logits"].part == ""
    mixed = cells(made("qwen3_5"))
    assert mixed["layers.state_input"].part == "linear_attn"
    assert mixed["layers.attention_scores"].part == "self_attn"


def test_a_second_list_of_blocks_has_its_shapes_and_a_table_of_its_own():
    matrix = support_matrix(made("mllama"), "it")
    (group,) = (group for group in matrix.groups if group.title == "Tower blocks, global_layers")
    shapes = {row.value: row.cells[0].shape for row in group.rows}
    assert shapes["vision.global_layers.layer_output"] == "[images, patches, vision_hidden]"
    reading = [cell.shape for row in group.rows for cell in row.cells if cell.reason is None]
    assert reading
    assert all(reading)


@pytest.mark.parametrize("row", ["llava", "qwen3_5", "qwen3_vl_moe", "llama4"])
def test_what_is_recomputed_says_so_in_every_format(row):
    matrix = support_matrix(made(row), "it")
    patterns = ("attention_scores", "attention_probabilities", "segment_probabilities", "next_token_probs")
    marked = {one.value.rpartition(".")[2] for group in matrix.groups for one in group.rows if again(one)}
    assert "attention_output" not in marked
    assert marked <= {*patterns, "expert_outputs"}
    # Llama 4 runs every expert on all tokens, so what the chosen ones return is among what the model itself makes.
    assert ("expert_outputs" in marked) == (row == "qwen3_vl_moe")
    for name, write in FORMATS.items():
        assert "recomputed" in write(matrix), name


def again(row):
    return any(cell.recomputed for cell in row.cells)
