"""A model that is broken in one way fails the clause that says so, and no other, at the block that is broken."""

from types import SimpleNamespace

import pytest
import torch

from belvedere import StandardizedTransformer, families
from belvedere.components import TEXT_BLOCK, Attention, Layer, Mlp
from belvedere.descriptors import Value, value
from belvedere.layouts import Queries, Residual
from belvedere.select import Argument, First
from belvedere.testing import ROWS, build


@pytest.fixture
def registered():
    """A text entry of one's own, by what it changes of another one's."""
    names = []

    def register(base, **envoys):
        entry, name = families.lookup("text", base), f"broken_{len(names)}_{base}"
        table = {**entry.ENVOYS, **{key.replace("__", ".*."): envoy for key, envoy in envoys.items()}}
        table = {("layers.*" if key == "layers" else key): envoy for key, envoy in table.items()}
        families.register("text", name, SimpleNamespace(RENAME=entry.RENAME, ENVOYS=table))
        names.append(name)
        return {"text": name}

    yield register
    for name in names:
        families._registered["text"].pop(name)


def verified(name, module=None, inputs=None, **given):
    model = StandardizedTransformer(build(name) if module is None else module, **given)
    return model, (ROWS[name].inputs() if inputs is None else inputs)


def failing(report):
    return {one.number: [str(found) for found in one.differences] for one in report.failed}


def test_an_entry_that_takes_a_part_for_what_is_added_fails_the_sum_on_every_block(registered):
    model, inputs = verified("gemma3", family=registered("gemma3_text", layers=Layer))
    failed = failing(model.verify(**inputs))
    assert [*failed] == [2]
    assert [line.partition(":")[0] for line in failed[2]] == ["layers[0]", "layers[1]", "layers[2]"]
    assert "layer_input + attention_output + mlp_output is not layer_output, apart by " in failed[2][0]


class KeyedAttention(Attention):
    @value(":attention_interface().input", select=Argument(2, "key"), description="keys for queries")
    def attention_queries(self, held: torch.Tensor) -> Queries:
        return held


def test_an_envoy_that_reads_another_argument_is_not_what_the_interface_is_called_with(registered):
    model, inputs = verified("llava", family=registered("llama", layers__self_attn=KeyedAttention))
    failed = failing(model.verify(**inputs))
    assert [*failed] == [5]
    assert failed[5][0] == "layers[0].self_attn.attention_queries: the attention interface has other numbers"


class EarlyLayer(Layer):
    @value("mlp.output", select=First(), description="what the MLP adds, for what leaves")
    def layer_output(self, held: torch.Tensor) -> Residual:
        return held


def test_an_envoy_at_another_module_is_not_what_a_hook_on_the_block_sees(registered):
    model, inputs = verified("llama", family=registered("llama", layers=EarlyLayer))
    failed = failing(model.verify(**inputs))
    assert 5 in failed
    assert "layers[0].layer_output: a PyTorch hook on a plain forward sees something else by" in failed[5][0]


class CopyingMlp(Mlp):
    @value("output", description="a copy")
    def mlp_output(self, held: torch.Tensor) -> Residual:
        return held.clone()


def test_a_value_whose_edits_in_place_are_lost_fails_the_writes(registered):
    model, inputs = verified("llava", family=registered("llama", layers__mlp=CopyingMlp))
    failed = failing(model.verify(**inputs))
    assert [*failed] == [4]
    assert failed[4] == [
        f"layers[{number}].mlp.mlp_output: an edit in place does not reach the logits" for number in range(3)
    ]


class WritingMlp(Mlp):
    @value("output", description="changed by the read")
    def mlp_output(self, held: torch.Tensor) -> Residual:
        return held.mul_(1.5)


def test_a_read_that_changes_something_is_named_as_the_first_that_does(registered):
    model, inputs = verified("llava", family=registered("llama", layers__mlp=WritingMlp))
    failed = failing(model.verify(**inputs))
    assert failed[3][0].startswith("layers[0].mlp.mlp_output: reading it changes the logits by ")
    assert len(failed[3]) == 1


def test_a_stream_whose_image_tokens_are_off_by_one_fails_the_identity():
    model, inputs = verified("llava")
    held = {}

    def note(_, args, kwargs):
        held["mask"] = kwargs["input_ids"] == model.placeholder("image")

    def shift(_, args, kwargs):
        stream = args[0].clone()
        for row, mask in zip(stream, held["mask"], strict=True):
            row[mask] = row[mask].roll(1, 0)
        return (stream, *args[1:]), kwargs

    model._module.register_forward_pre_hook(note, with_kwargs=True)
    model.layers[0]._module.register_forward_pre_hook(shift, with_kwargs=True)
    failed = failing(model.verify(**inputs))
    assert 1 in failed
    assert "32 image tokens of 32, the first of them 0, not image_features by" in failed[1][-1]
    assert [*failed] == [1]


def leaking(block):
    """Have a block add some of what enters it once more."""

    def forward(self, hidden_states, *args, **kwargs):
        return super(kind, self).forward(hidden_states, *args, **kwargs) + 0.1 * hidden_states

    kind = type(f"Leaking{type(block).__name__}", (type(block),), {"forward": forward})
    block.__class__ = kind


@pytest.mark.parametrize(
    ("native", "where"),
    [("model.language_model.layers.1", "layers[1]"), ("model.vision_tower.encoder.layers.0", "vision.layers[0]")],
)
def test_a_block_with_a_residual_too_many_fails_the_sum_at_that_block(native, where):
    module = build("llava")
    leaking(module.get_submodule(native))
    model, inputs = verified("llava", module)
    failed = failing(model.verify(**inputs))
    assert [*failed] == [2]
    assert len(failed[2]) == 1
    assert failed[2][0].startswith(
        f"{where}: layer_input + attention_output + mlp_output is not layer_output, apart by "
    )


def test_a_hook_that_changes_what_a_part_returns_behind_the_trace_fails_at_that_block():
    model, inputs = verified("llava")
    model.layers[1].mlp._module.register_forward_hook(lambda _, args, output: output * 1.5)
    failed = failing(model.verify(**inputs))
    assert all(any("layers[1]" in line for line in lines) for lines in failed.values())
    assert {2, 5} & {*failed}


def test_a_kernel_that_is_not_the_pattern_times_the_values_fails_those(monkeypatch):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    own = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def louder(*args, **kwargs):
        output, pattern = own(*args, **kwargs)
        return output * 1.5, pattern

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", louder)
    model, inputs = verified("qwen3_5")
    failed = failing(model.verify(**inputs))
    assert [*failed] == [6, 8]
    assert failed[6][0].startswith("vision.layers[0].self_attn, segment 0: the pattern times the values is not")
    assert any(line.startswith("layers[1].self_attn: ") for line in failed[6])
    assert all("with attention eager" in line for line in failed[8])


@pytest.mark.parametrize("said", ["it is not here; read another", None])
def test_a_row_of_support_that_is_not_true_fails_that_clause(said, monkeypatch):
    model, inputs = verified("llava")
    own = type(model).support
    name = "layers.mlp_output" if said else "vision.rotary"
    monkeypatch.setattr(type(model), "support", lambda self, *args, **kwargs: {**own(self), name: said})
    failed = failing(model.verify(**inputs))
    assert [*failed] == [7]
    if said:
        assert failed[7][0] == f"layers[0].mlp.mlp_output: reads, although support() says {said!r}"
    else:
        assert "vision.rotary: support() says that it reads, and a read raises Unavailable" in failed[7][0]


def test_an_answer_that_depends_on_how_many_are_asked_fails_the_batch():
    module = build("llava")
    last = module.get_submodule("model.language_model.norm")
    last.register_forward_hook(lambda _, args, output: output * len(output))
    model, inputs = verified("llava", module, ROWS["llava"].solo(0))
    failed = failing(model.verify(**inputs))
    assert [*failed] == [8]
    assert failed[8][0].startswith("logits: beside another prompt it is something else, apart by ")


def test_a_clause_that_raises_has_failed_and_the_others_are_run(monkeypatch):
    model, inputs = verified("llava")

    def broken(self, *_):
        raise KeyError("nothing here")

    monkeypatch.setattr(Value, "location", broken)
    report = model.verify(**inputs)
    assert len(report.clauses) == 8
    assert "could not be run to its end, KeyError: 'nothing here'" in str(report.failed[0].differences[0])


def test_the_table_of_text_block_envoys_is_what_these_tests_change():
    assert {"layers.*", "layers.*.self_attn", "layers.*.mlp"} <= set(TEXT_BLOCK)
