"""What is said of a value before a run, against what the run has."""

import inspect
import pydoc
import re

import pytest
import torch

from belvedere import InputError, StandardizedTransformer, Unavailable, WriteError
from belvedere.descriptors import KeptValue
from belvedere.testing import build


def reached(model, path):
    """The envoy and the name of a value's path."""
    *above, name = re.findall(r"[^.\[\]]+", path)
    for one in above:
        model = model[int(one)] if one.isdigit() else getattr(model, one)
    return model, name


def chain(model):
    """The descriptions of all values that mark a moment, by following what is said to come next."""
    (said,) = model.describe("input_ids")
    while said.before is not None:
        (said,) = model.describe(said.before)
        yield said


def tensors(held):
    return [held] if isinstance(held, torch.Tensor) else list(held)


def dimensions(shape):
    """``"([patches, head_dim=8], [patches, head_dim=8])"`` as lists of sizes, ``None`` for those of the input."""
    named = re.findall(r"\[([^\]]*)\]", shape)
    return [[int(axis.partition("=")[2]) if "=" in axis else None for axis in one.split(", ")] for one in named]


def test_values_come_in_the_order_and_of_the_shape_that_is_said(checkpoint):
    """One trace reads them all, one after the other: one that is early or late raises."""
    model = checkpoint.model
    said = list(chain(model))
    held = {}
    with model.trace(**checkpoint.inputs):
        for one in said:
            host, name = reached(model, one.path)
            served = getattr(host, name)
            held[one.path] = [tuple(tensor.shape) for tensor in tensors(served)]
    for one in said:
        wanted = dimensions(one.shape)
        wanted = wanted * len(held[one.path]) if one.shape.startswith("list of") else wanted
        assert len(wanted) == len(held[one.path]), one.path
        for sizes, shape in zip(wanted, held[one.path], strict=True):
            assert len(sizes) == len(shape), one.path
            assert all(size in (None, length) for size, length in zip(sizes, shape, strict=True)), (one, shape)


def test_the_order_leaves_no_value_out(checkpoint):
    model = checkpoint.model
    chained = {one.path for one in chain(model)}
    hosts = [model, *(host for host in model.modules() if hasattr(host, "values") and hasattr(host, "axis_size"))]
    if checkpoint.row.tower:
        hosts.append(model.vision)
    for host in hosts:
        for name, found in host.values().items():
            if found.reason(host) is None and not isinstance(found, KeptValue) and name != "video_features":
                assert found.path(host) in chained


def test_where_a_value_is_is_what_support_says(checkpoint):
    for path, row in checkpoint.model.support().items():
        described = checkpoint.model.describe(path)
        reasons = {number: reason for one in described for number, reason in one.reasons.items()}
        having = {number for one in described for number in one.having}
        if isinstance(row, dict):
            assert {number: reason for number, reason in reasons.items() if number not in having} == row, path
        elif row is None:
            assert any(one.available for one in described), path
        else:
            assert set(reasons.values()) == {row}, path
            assert not having


def test_what_is_said_to_be_read_only_refuses_a_write_and_says_the_same(llava):
    for path in ("next_token_probs", "vision.image_token_mask", "input_size"):
        (said,) = llava.model.describe(path)
        host, name = reached(llava.model, path)
        with pytest.raises(WriteError, match=re.escape(said.read_only)):
            with llava.model.trace(**llava.inputs):
                setattr(host, name, 0)
        assert f"write   no: {said.read_only.split(';')[0]}" in str(said)
    assert llava.model.describe("layers.layer_output")[0].read_only == ""


def test_a_description_can_be_read(llava):
    shown = str(llava.model.describe("layers.attention_probabilities"))
    assert shown.splitlines()[0] == "layers[i].self_attn.attention_probabilities"
    for line in (
        r"  what    The pattern: `attention_probabilities @ attention_values == attention_head_outputs`",
        r"  shape   Pattern \[batch, heads=4, seq, keys\]",
        r"  order   after layers\[i\].self_attn.attention_scores, before layers\[i\].self_attn.attention_head_outputs",
        r"  write   in place, or by assignment",
        r"  made of the arguments of the attention's own call",
        r"  here    yes, on blocks 0-2",
    ):
        assert re.search(f"^{line}", shown, re.MULTILINE), line
    assert max(map(len, shown.splitlines())) <= 110
    assert "before layers[i + 1].layer_input" in str(llava.model.describe("layers.layer_output"))
    assert "before layers[2].layer_input" in str(llava.model.describe("layers[1].layer_output"))
    assert "can be read at any later point" in str(llava.model.describe("input_ids"))
    assert "no; " in str(llava.model.describe("vision.rotary"))


def test_what_differs_by_block_is_said_for_each_kind(qwen3_5):
    recurrent, softmax = qwen3_5.describe("layers.attention_queries")
    assert (recurrent.layout, softmax.layout) == ("RecurrentQueries", "Queries")
    kinds = [
        "linear" if hasattr(block, "linear_attn") else "full" for block in qwen3_5._module.model.language_model.layers
    ]
    assert recurrent.having == tuple(number for number, kind in enumerate(kinds) if kind == "linear")
    assert softmax.having == tuple(number for number, kind in enumerate(kinds) if kind == "full")


@pytest.fixture(scope="module")
def qwen3_5():
    return StandardizedTransformer(build("qwen3_5"))


def test_a_path_may_leave_out_number_and_part_or_give_them(llava):
    model = llava.model
    whole = model.describe("layers[1].self_attn.attention_keys")
    assert whole == model.layers[1].self_attn.describe("attention_keys") == model.layers[1].describe("attention_keys")
    assert whole == model.describe("layers.1.self_attn.attention_keys")
    assert model.describe("layers[-1].mlp") == model.layers[2].mlp.describe()
    assert [one.path for one in model.describe("layers[0].mlp") if one.available] == ["layers[0].mlp.mlp_output"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("layers.layer_outptu", "did you mean 'layers.layer_output'"),
        ("layer.layer_output", "did you mean 'layers.layer_output'"),
        ("vision.layers.self_attn.attention_kys", "did you mean 'vision.layers.self_attn.attention_keys'"),
        ("layers.self_atn", "did you mean 'layers.self_attn'"),
        ("layers[7].layer_output", "no block 7 in 'layers\\[7\\].layer_output'; there are 3"),
        ("telescope", "has no value or part 'telescope'$"),
    ],
)
def test_a_path_that_means_nothing_is_answered_with_the_nearest(llava, path, said):
    with pytest.raises(ValueError, match=said):
        llava.model.describe(path)


def test_a_tower_that_is_not_there_is_not_described():
    with pytest.raises(Unavailable, match="has no tower"):
        StandardizedTransformer(build("llama")).describe("vision.image_features")


def test_help_of_a_part_shows_its_values_on_this_checkpoint(llava):
    block = llava.model.layers[1]
    shown = pydoc.render_doc(block, renderer=pydoc.plaintext)
    for name, reason in block.support().items():
        assert (f"layers[1].{name}\n" in shown) is (reason is None)
    assert "Residual [batch, seq, hidden=32]" in shown
    assert "layers[1].self_attn.attention_keys" in shown
    assert "A text block." in shown


def test_help_of_a_kind_of_part_is_its_own(llava):
    kind = type(llava.model.layers[1])
    assert inspect.getdoc(kind).startswith("A text block.")
    assert "hidden=" not in kind.__doc__
    shown = pydoc.render_doc(kind.layer_output, renderer=pydoc.plaintext)
    assert "Residual [batch, seq, hidden]" in shown
    assert "The stream leaving this block." in shown


def test_a_read_outside_of_a_trace_points_to_the_description(llava):
    with pytest.raises(ValueError, match=r"`model.describe\('layers\[1\].layer_output'\)` says what it is") as refused:
        llava.model.layers[1].layer_output  # noqa: B018
    assert not isinstance(refused.value, InputError)
    call = re.search(r"`(model\.describe\(.*?\))`", str(refused.value))[1]
    assert eval(call, {"model": llava.model})[0].path == "layers[1].layer_output"


def test_a_notebook_completes_what_is_there(llava):
    model = llava.model
    assert {"layers", "vision", "projector", "logits", "hidden_size", "trace", "describe", "tree"} <= set(dir(model))
    assert {"layer_output", "self_attn", "mlp", "input_layernorm"} <= set(dir(model.layers[0]))
    assert {"image_features", "layers", "patch_size", "staged"} <= set(dir(model.vision))
    assert not {"rotary", "merged_patches"} & set(dir(model.vision))
    assert "deepstack_output" not in dir(model.layers[0])
