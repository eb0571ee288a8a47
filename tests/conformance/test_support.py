"""`support()` and reading agree, on real weights, on the meta device and from the config alone."""

import pytest
import torch
from truth import first
from walk import every_value, path

from belvedere import StandardizedTransformer, Unavailable
from belvedere.testing import ROWS, build

VIDEO = "video_features"


def test_what_support_says_reads_and_what_it_refuses_raises_that_reason(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    refused = read = 0
    for host, found in every_value(model):
        reason = found.reason(host)
        if reason is None and found.name == VIDEO:
            continue
        if reason is None:
            with model.trace(**inputs):
                held = getattr(host, found.name).save()
            assert held is not None, path(host, found)
            read += 1
            continue
        with pytest.raises(Unavailable) as raised, model.trace(**inputs):
            getattr(host, found.name)
        assert (raised.value.path, raised.value.reason) == (path(host, found), reason)
        with pytest.raises(Unavailable), model.trace(**inputs):
            setattr(host, found.name, torch.zeros(1))
        refused += 1
    assert read > 25
    assert refused > 10


def test_a_refusal_comes_before_the_model_runs(llava):
    ran = []
    handle = llava.model._module.register_forward_pre_hook(lambda *_: ran.append(1))
    try:
        with pytest.raises(Unavailable, match="read position_embeddings"), llava.model.trace(**llava.inputs):
            llava.model.vision.rotary.save()
    finally:
        handle.remove()
    assert not ran


def test_a_reason_has_a_cause_and_a_way_out(checkpoint):
    reasons = [(path(host, found), found.reason(host)) for host, found in every_value(checkpoint.model)]
    for where, reason in reasons:
        if reason is not None:
            cause, _, cure = reason.partition("; ")
            assert len(cause) > 10, where
            assert len(cure) > 5, where


def test_support_is_the_same_without_weights(checkpoint):
    meta = StandardizedTransformer.from_config(checkpoint.row.config(), task=checkpoint.row.task)
    assert all(parameter.is_meta for parameter in meta._module.parameters())
    assert meta.support() == checkpoint.model.support()
    for number in range(checkpoint.model.num_layers):
        assert meta.support(layer=number) == checkpoint.model.support(layer=number)


def test_support_folds_the_blocks_that_agree_and_names_those_that_do_not(qwen):
    support = qwen.model.support()
    assert support["layers.layer_output"] is None
    assert set(support["layers.attention_probabilities"]) == {0, 2}
    assert "blocks with self_attn: 1, 3" in support["layers.attention_probabilities"][0]
    assert set(support["layers.state_input"]) == {1, 3}
    assert "segment_probabilities" in support["vision.layers.attention_probabilities"]
    assert support["vision.layers.segment_probabilities"] is None
    assert support["vision.video_features"] is None


def test_support_of_a_layer_is_that_blocks_rows(qwen):
    assert qwen.model.support(layer=0)["attention_probabilities"] is not None
    assert qwen.model.support(layer=1)["attention_probabilities"] is None
    assert qwen.model.layers[1].self_attn.support()["decays"] is not None


def test_the_towers_own_support_has_its_values_and_its_blocks(wrapper):
    own = wrapper.model.vision.support()
    assert own["vision.image_features"] is None
    assert own["vision.tower_output"] is None
    assert own.get("vision.layers.layer_output", "no blocks") == ("no blocks" if wrapper.row.blockless else None)
    assert set(own) < set(wrapper.model.support())


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row.tower])
def test_a_text_model_says_why_it_has_no_tower(name):
    model = StandardizedTransformer(build(name))
    assert not [name for name in model.support() if name.startswith("vision")]
    with pytest.raises(Unavailable, match="is a text model and has no tower; load a vision-language checkpoint"):
        model.vision.image_features  # noqa: B018


def test_a_wrapper_loaded_for_text_says_why_no_picture_reaches_it():
    model = StandardizedTransformer.from_config(ROWS["qwen3_5"].config(), task="text-generation")
    assert type(model._module).__name__ == "Qwen3_5ForCausalLM"
    assert not [name for name in model.support() if name.startswith("vision")]
    with pytest.raises(Unavailable, match="load with task='image-text-to-text'"):
        model.vision.layers  # noqa: B018
    assert model.vision.support() == {}


@pytest.mark.parametrize("name", ["gemma3", "gemma4", "gemma4_unified"])
def test_a_wrapper_that_is_loaded_whole_for_text_has_all_that_it_has(name):
    whole = StandardizedTransformer.from_config(ROWS[name].config())
    model = StandardizedTransformer.from_config(ROWS[name].config(), task="text-generation")
    assert type(model._module) is type(whole._module)
    assert model.support() == whole.support()


def test_a_wrapper_whose_entry_names_no_projector_has_no_tower_rows():
    from types import SimpleNamespace

    from belvedere import families
    from belvedere.families import Wrapper

    families.register("wrappers", "unprojected", SimpleNamespace(WRAPPER=Wrapper(projector=None)))
    try:
        model = StandardizedTransformer(build("llava"), family={"wrapper": "unprojected"})
        assert not [name for name in model.support() if name.startswith("vision")]
        assert "names no projector" in model.vision.no_images()
        with pytest.raises(Unavailable, match="names no projector"), model.trace(**ROWS["llava"].inputs()):
            model.vision.layers[0].layer_output.save()
    finally:
        families._registered["wrappers"].pop("unprojected")


def test_an_operation_that_transformers_renamed_is_named_and_never_answered_with_another(monkeypatch):
    from belvedere.components import ImageScatter

    monkeypatch.setattr(ImageScatter, "scatter", "inputs_embeds.index_put()")
    model = StandardizedTransformer(build("llava"))
    reason = model.support()["vision.image_features"]
    assert "LlavaModel" in reason
    assert "has no operation `inputs_embeds.index_put()`" in reason
    with pytest.raises(Unavailable, match="has no operation"), model.trace(**ROWS["llava"].inputs()):
        model.vision.image_features.save()


def test_sizes_that_an_architecture_does_not_have_say_so(llava, qwen):
    with pytest.raises(Unavailable, match="any resolution; each one's patch grid"):
        qwen.model.vision.image_size  # noqa: B018
    with pytest.raises(Unavailable, match="no windows"):
        llava.model.vision.window_size  # noqa: B018


def test_hasattr_on_an_unavailable_value_raises_its_reason(llava):
    with pytest.raises(Unavailable, match="rotates nothing"):
        hasattr(llava.model.vision, "rotary")


def test_a_part_that_a_block_lacks_names_the_blocks_that_have_it(qwen):
    with pytest.raises(AttributeError, match=r"layers\[0\] has no self_attn; blocks with one: 1, 3"):
        qwen.model.layers[0].self_attn  # noqa: B018
    assert not hasattr(qwen.model.layers[0], "self_attn")


def test_a_value_read_outside_a_trace_says_how_to_read_it(llava):
    with pytest.raises(ValueError, match=r"layers\[0\].layer_input exists while the model runs: read it inside"):
        llava.model.layers[0].layer_input  # noqa: B018


def test_a_value_read_too_late_is_nnsights_error(llava):
    from nnsight.intervention.interleaver import OutOfOrderError

    too_late = pytest.raises(OutOfOrderError, match="already ran past it")
    with too_late, llava.model.trace(**llava.inputs):
        llava.model.layers[1].layer_output.save()
        llava.model.layers[0].layer_output.save()


def test_the_scatter_is_served_though_its_forward_has_begun(llava):
    with llava.model.trace(**llava.inputs):
        stream = llava.model.vision.layers[0].layer_output.save()
        features = llava.model.vision.image_features.save()
    assert first(stream).shape[-1] == 24
    assert features.shape == (32, 32)


def test_operations_are_served_though_the_attentions_forward_has_begun(llava):
    with llava.model.trace(**llava.inputs):
        projected = llava.model.layers[0].self_attn.q_proj.output.save()
        queries = llava.model.layers[0].self_attn.attention_queries.save()
    assert projected.shape[-1] == queries.shape[1] * queries.shape[3]


def test_the_tree_shows_values_with_their_shapes(qwen):
    shown = qwen.model.tree()
    assert "(layer_input) -> Residual [batch, seq, hidden]" in shown
    assert "(image_features) -> ImageFeatures [image_tokens, hidden]" in shown
    assert "(segment_probabilities) -> SegmentPatterns list of [heads, segment, segment]" in shown
    assert "(not here, see support()): attention_scores, attention_probabilities" in shown
    assert "(router_logits)" not in shown
