"""What went wrong when people tried to break it: late edits, gradients at every value, shared rows, odd inputs."""

import pytest
import torch
from truth import logits_of
from walk import available, path

from belvedere import InputError, StandardizedTransformer, WriteError
from belvedere.components.pattern import PatternValue
from belvedere.testing import build

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
#: No tensor of the value itself is on the way from the weights to the logits.
NO_GRADIENT = ("segments", "rotary", "video_features", "next_token_probs", "image_features_per_image", "state_input")


def differentiable(model):
    for host, found in available(model):
        if found.name in NO_GRADIENT or isinstance(found, PatternValue) or found.layout == "ExpertIndices":
            continue
        if "mask" not in found.name and "input" not in found.name.removesuffix("layer_input"):
            yield host, found


def test_the_gradient_at_every_value_is_that_of_a_zero_added_there(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    weights = torch.randn(64, generator=torch.Generator().manual_seed(3))
    tried = 0
    for host, found in differentiable(model):
        where = path(host, found)
        if host.remark(found.name) is not None or where in {*checkpoint.row.shared, *checkpoint.row.copied}:
            continue
        with torch.enable_grad():
            with model.trace(**inputs):
                held = getattr(host, found.name)
                loss = (logits_of(model.output)[:, -1] * weights).sum()
                with loss.backward():
                    ours = held.grad.clone().save()
            model._module.zero_grad()
            with torch.no_grad(), model.trace(**inputs):
                shape = getattr(host, found.name).detach().clone().save()
            delta = torch.zeros_like(shape, requires_grad=True)
            with model.trace(**inputs):
                setattr(host, found.name, getattr(host, found.name) + delta)
                total = (logits_of(model.output)[:, -1] * weights).sum().save()
            (truth,) = torch.autograd.grad(total, delta)
        scale = max(1.0, truth.abs().max().item())
        assert (ours - truth).abs().max() <= 1e-4 * scale, where
        tried += 1
    assert tried > 20


def test_in_place_edits_land_with_gradients_on_as_they_do_without(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    for host, found in differentiable(model):
        logits = []
        for context in (torch.enable_grad(), torch.no_grad()):
            with context:
                with model.trace(**inputs):
                    held = getattr(host, found.name)
                    held *= 0.5
                    out = logits_of(model.output).detach().save()
                logits.append(out)
        assert torch.equal(*logits), path(host, found)


def test_the_gradient_at_a_pattern_passes_once_it_is_written_back(llava):
    attention = llava.model.layers[1].self_attn
    with torch.enable_grad(), llava.model.trace(**llava.inputs):
        pattern = attention.attention_probabilities
        attention.attention_probabilities = pattern
        loss = llava.model.logits[:, -1].sum()
        with loss.backward():
            gradient = pattern.grad.save()
    assert gradient.abs().sum() > 0
    llava.model._module.zero_grad()


@pytest.mark.parametrize("after", ["attention_probabilities", "attention_head_outputs"])
def test_an_edit_of_a_pattern_lands_at_once_and_raises_when_it_is_too_late(llava, after):
    attention = llava.model.layers[1].self_attn
    if after == "attention_probabilities":
        with llava.model.trace(**llava.inputs):
            scores = attention.attention_scores
            attention.attention_probabilities.mean().save()
            scores[:] = 0.0
            outputs = attention.attention_head_outputs.save()
        with llava.model.trace(**llava.inputs):
            mean = attention.attention_values.mean(2).save()
        torch.testing.assert_close(outputs[:, 0, -1], mean[:, 0], **CLOSE)
        return
    with pytest.raises(WriteError, match="edited after another value was read, too late"):
        with llava.model.trace(**llava.inputs):
            pattern = attention.attention_probabilities
            attention.attention_head_outputs.mean().save()
            pattern[:] = 0.0


def test_scores_and_probabilities_are_not_both_edited(llava):
    attention = llava.model.layers[1].self_attn
    with pytest.raises(WriteError, match="were both edited"), llava.model.trace(**llava.inputs):
        scores = attention.attention_scores
        pattern = attention.attention_probabilities
        scores[:] = 0.0
        pattern[:] = 0.0
        llava.model.logits.save()


@pytest.mark.parametrize("name", ["attention_mask", "image_token_mask", "next_token_probs"])
def test_an_edit_in_place_of_what_cannot_be_written_then_raises(llava, name):
    model = llava.model
    host = model.vision if name == "image_token_mask" else model
    with pytest.raises(WriteError), model.trace(**llava.inputs):
        model.layers[0].layer_output.mean().save()
        getattr(host, name)[:] = 0


def test_an_edit_of_the_mask_before_the_model_begins_lands_and_leaves_the_callers_alone(llava):
    inputs = llava.inputs
    mask = inputs["attention_mask"].clone()
    with llava.model.trace(**inputs):
        llava.model.attention_mask[1, :4] = 0
        logits = llava.model.logits.save()
    assert torch.equal(inputs["attention_mask"], mask)
    mask[1, :4] = 0
    assert torch.equal(logits, llava.raw(**{**inputs, "attention_mask": mask}).logits)


def test_a_list_that_loses_a_picture_is_refused(qwen):
    attention = qwen.model.vision.layers[0].self_attn
    with pytest.raises(WriteError, match="keep the shapes"), qwen.model.trace(**qwen.inputs):
        attention.segment_probabilities.pop()
        qwen.model.logits.save()


def test_encodings_without_a_mask_are_padded_with_one(llava):
    model = llava.model
    first = {"input_ids": torch.tensor([[9, 10, 11, 12, 13, 14]])}
    second = {"input_ids": torch.tensor([[20, 21, 22]])}
    with model.trace(**second):
        alone = model.logits.save()
    with model.trace() as tracer:
        with tracer.invoke(**first):
            model.logits.save()
        with tracer.invoke(**second):
            logits = model.logits.save()
    torch.testing.assert_close(logits[:, -3:], alone, atol=1e-4, rtol=1e-4)


def test_a_state_written_in_one_invoke_leaves_the_other_at_zero(qwen):
    model, mixer = qwen.model, qwen.model.layers[0].linear_attn
    with model.trace() as tracer:
        with tracer.invoke(**qwen.row.inputs() | {}):
            plain = model.logits.save()
        with tracer.invoke(input_ids=torch.tensor([[9, 10, 11]])):
            model.logits.save()
    with model.trace() as tracer:
        with tracer.invoke(**qwen.row.inputs()):
            untouched = model.logits.save()
        with tracer.invoke(input_ids=torch.tensor([[9, 10, 11]])):
            mixer.state_input[:] = 3.0
            model.logits.save()
    assert torch.equal(untouched, plain)


@pytest.mark.parametrize("way", ["in place", "assigned"])
def test_a_table_of_positions_is_an_invoke_s_own_or_cannot_be_written_by_one(wrapper, way):
    model, vision = wrapper.model, wrapper.model.vision
    if vision.support()["vision.position_embeddings"] is not None:
        return
    first, second = wrapper.row.solo(0), wrapper.row.solo(1)
    with model.trace() as tracer:
        with tracer.invoke(**first):
            model.logits.save()
        with tracer.invoke(**second):
            plain = model.logits.save()
    refused, logits = "", plain
    try:
        with model.trace() as tracer:
            with tracer.invoke(**first):
                if way == "in place":
                    vision.position_embeddings[:] = 0
                else:
                    vision.position_embeddings = 0
                model.logits.save()
            with tracer.invoke(**second):
                logits = model.logits.save()
    except WriteError as error:
        refused = str(error)
    if refused:
        assert "shared by all invokes" in refused
    else:
        torch.testing.assert_close(logits, plain, atol=1e-4, rtol=1e-4)


def test_a_static_cache_is_no_future_to_attend_to(llava):
    from transformers import StaticCache

    model = llava.model
    inputs = {"input_ids": torch.tensor([[9, 10, 11, 12]])}
    attention = model.layers[0].self_attn
    cache = StaticCache(config=model.config, max_cache_len=9)
    with model.trace(**inputs, cache=cache):
        values = attention.attention_values.save()
        pattern = attention.attention_probabilities.save()
        outputs = attention.attention_head_outputs.save()
    assert pattern[0, :, 0, 1:].abs().max() == 0
    mixed = pattern @ values.repeat_interleave(2, dim=1)[:, :, : pattern.shape[-1]]
    torch.testing.assert_close(mixed, outputs, **CLOSE)


def test_patterns_in_float64_are_finite_under_padding(llava):
    model = StandardizedTransformer(build("llava").double())
    inputs = {key: held.double() if held.is_floating_point() else held for key, held in llava.inputs.items()}
    with model.trace(**inputs):
        pattern = model.layers[0].self_attn.attention_probabilities.save()
    assert pattern.isfinite().all()


def test_logits_are_found_behind_a_loss(llava):
    inputs = llava.inputs
    with llava.model.trace(**inputs, labels=inputs["input_ids"], return_dict=False):
        logits = llava.model.logits.save()
    assert torch.equal(logits, llava.logits)


def test_next_token_probs_of_the_last_logits_alone(llava):
    ids = torch.tensor([[9, 10, 11, 12, 0, 0], [9, 10, 11, 12, 13, 14]])
    mask = (ids != 0).long()
    with llava.model.trace(input_ids=ids, attention_mask=mask, logits_to_keep=4):
        after = llava.model.next_token_probs.save()
    logits = llava.raw(input_ids=ids, attention_mask=mask).logits
    expected = torch.stack([logits[0, 3], logits[1, 5]]).softmax(-1)
    torch.testing.assert_close(after, expected)


def test_beams_over_several_invokes_are_refused(llava):
    with pytest.raises(InputError, match="num_beams multiplies the rows"):
        with llava.model.generate(max_new_tokens=2, num_beams=2) as tracer:
            with tracer.invoke(input_ids=torch.tensor([[9, 10]])):
                llava.model.logits.save()
            with tracer.invoke(input_ids=torch.tensor([[9, 11]])):
                llava.model.logits.save()


def test_the_features_of_every_beam_are_split_by_picture(wrapper):
    if wrapper.row.ungenerated:
        # test_batches holds to what fails.
        return
    model = wrapper.model
    own = wrapper.row.solo(1)
    with model.generate(**own, max_new_tokens=2, num_beams=2, do_sample=False):
        split = model.vision.image_features_per_image.save()
    assert len(split) == 2
    assert torch.equal(*split)


def test_a_tower_can_be_traced_alone(llava):
    with llava.model.vision.trace(llava.inputs["pixel_values"]):
        stream = llava.model.vision.layers[0].layer_output.save()
    assert stream.shape == (2, 17, 24)


def test_a_mistyped_value_names_the_nearest_and_a_misplaced_one_its_host(llava):
    with pytest.raises(AttributeError, match="did you mean 'image_features'"):
        llava.model.vision.image_feature  # noqa: B018
    with pytest.raises(AttributeError, match="it is a value of vision"):
        llava.model.image_features  # noqa: B018
    with pytest.raises(AttributeError, match=r"it is a value of layers\[0\].self_attn"):
        llava.model.layers[0].attention_queries  # noqa: B018


@pytest.mark.parametrize(
    ("family", "match"),
    [({"txt": "llama"}, "no part txt of a family; parts: text"), ("llama", "pass the parts by name")],
)
def test_a_family_is_given_by_its_parts(family, match):
    with pytest.raises(ValueError, match=match):
        StandardizedTransformer(build("llava"), family=family)
