"""Where text attends to pictures and nothing is scattered: the features, the blocks that read them, and their gates."""

import pytest
import torch
from truth import hooked, logits_with_added

from belvedere import InputError, StandardizedTransformer, Unavailable
from belvedere.components import CrossAttention
from belvedere.testing import ROWS, build


@pytest.fixture(params=[name for name, row in ROWS.items() if row.tower and row.cross])
def attending(request):
    from conftest import _built

    return _built[request.param, "sdpa"]


def cross_blocks(checkpoint):
    return [number for number, block in enumerate(checkpoint.model.layers) if "cross_attn" in vars(block)]


def states(checkpoint, inputs=None):
    """What an untouched model hands to its text stack."""
    stack = checkpoint.row.blocks.removesuffix(".layers")
    _, keywords, _ = hooked(checkpoint.raw, inputs or checkpoint.inputs, stack)[stack]
    return keywords["cross_attention_states"]


def test_image_features_are_the_states_that_the_blocks_attend_to(attending):
    with attending.model.trace(**attending.inputs):
        features = attending.model.vision.image_features.save()
    assert torch.equal(features, states(attending).reshape(features.shape))
    assert features.shape[0] == 2


def test_keys_and_values_are_made_of_the_features_by_hand(attending):
    for number in cross_blocks(attending):
        attention = attending.model.layers[number].cross_attn
        with attending.model.trace(**attending.inputs):
            keys = attention.attention_keys.save()
            values = attention.attention_values.save()
        raw = attending.raw.get_submodule(f"{attending.row.blocks}.{number}.cross_attn")
        features = states(attending).reshape(2, -1, 32)
        heads = [projection(features).unflatten(-1, (2, 8)).transpose(1, 2) for projection in (raw.k_proj, raw.v_proj)]
        torch.testing.assert_close(keys, raw.k_norm(heads[0]))
        torch.testing.assert_close(values, heads[1])


def test_written_features_answer_as_their_own_picture(attending):
    inputs = attending.inputs
    other = {**inputs, "pixel_values": inputs["pixel_values"].flip(-1)}
    with attending.model.trace(**inputs):
        attending.model.vision.image_features = states(attending, other).reshape(2, -1, 32)
        assigned = attending.model.logits.save()
    with attending.model.trace(**inputs):
        for one, new in zip(attending.model.vision.image_features_per_image, states(attending, other), strict=False):
            one[:17] = new
        in_place = attending.model.logits.save()
    assert torch.equal(assigned, attending.raw(**other).logits)
    assert not torch.allclose(in_place, attending.logits)


@pytest.mark.parametrize("part", [0, 1])
def test_a_write_to_what_a_gated_block_adds_is_that_edit_by_hand(attending, part):
    number = cross_blocks(attending)[0]
    block = attending.model.layers[number]
    host, name = ((block.cross_attn, "attention_output"), (block.mlp, "mlp_output"))[part]
    # Rows that may look at no picture are zeroed before the second gate, so there the edit must keep zero.
    with attending.model.trace(**attending.inputs):
        setattr(host, name, getattr(host, name) * -0.7)
        logits = attending.model.logits.save()
    where, scaled = f"{attending.row.blocks}.{number}", attending.row.cross[part]
    expected = logits_with_added(attending.raw, attending.inputs, where, scaled, lambda held: held * -0.7)
    assert torch.equal(logits, expected)


def test_a_write_behind_a_closed_gate_lands(attending):
    number = cross_blocks(attending)[0]
    module = build(attending.name)
    raw = module.get_submodule(f"{attending.row.blocks}.{number}")
    with torch.no_grad():
        for scaled in attending.row.cross:
            raw.get_parameter(scaled.parameter).zero_()
    model = StandardizedTransformer(module)
    with model.trace(**attending.inputs):
        entering = model.layers[number].layer_input.save()
        added = model.layers[number].cross_attn.attention_output.save()
        leaving = model.layers[number].layer_output.save()
    assert added.abs().max() == 0
    assert torch.equal(entering, leaving)
    with model.trace(**attending.inputs):
        model.layers[number].cross_attn.attention_output[:] = 0.5
        leaving = model.layers[number].layer_output.save()
    assert torch.equal(entering + 0.5, leaving)


def test_a_position_before_the_picture_looks_at_none_and_the_mask_says_which(attending):
    inputs, number = attending.inputs, cross_blocks(attending)[0]
    with attending.model.trace(**inputs):
        pattern = attending.model.layers[number].cross_attn.attention_probabilities.save()
    mask = inputs["cross_attention_mask"].repeat_interleave(17, dim=3).flatten(2).bool()
    looking = mask.any(-1)
    assert looking.any()
    assert not looking.all()
    hidden = pattern.transpose(1, 2)[looking][~mask[looking][:, None].expand(-1, 4, -1)]
    assert hidden.numel() > 0
    assert hidden.max() == 0


def test_without_a_picture_the_blocks_are_skipped_and_say_so(attending):
    model = attending.model
    text = {"input_ids": attending.inputs["input_ids"]}
    number = cross_blocks(attending)[0]
    with pytest.raises(InputError, match="skips the blocks that attend to one"), model.trace(**text):
        model.layers[number].cross_attn.attention_output.save()
    with model.trace(**text):
        before = model.layers[number - 1].layer_output.save()
        after = model.layers[number + 2].layer_input.save()
    assert torch.equal(before, after)


def test_there_is_no_image_token_mask_and_the_reason_says_where_to_look(attending):
    with (
        pytest.raises(Unavailable, match="attend to them; read image_features"),
        attending.model.trace(**attending.inputs),
    ):
        attending.model.vision.image_token_mask.save()


def test_what_a_picture_shows_enters_where_the_components_say(attending):
    number = cross_blocks(attending)[0]
    attention = attending.model.layers[number].cross_attn
    assert isinstance(attention, CrossAttention)
    assert attention.ENTERS == ("attention_output",)
    assert attending.model.vision.ENTERS == ()
    other = {**attending.inputs, "pixel_values": attending.inputs["pixel_values"].flip(-1)}
    seen = []
    for inputs in (attending.inputs, other):
        with attending.model.trace(**inputs):
            for block in cross_blocks(attending):
                for value in attending.model.layers[block].cross_attn.ENTERS:
                    setattr(attending.model.layers[block].cross_attn, value, 0)
            logits = attending.model.logits.save()
        seen.append(logits)
    assert torch.equal(*seen)
    assert not torch.allclose(seen[0], attending.logits)


def test_the_second_stack_is_named_apart(attending):
    model = attending.model
    last = model.vision.global_layers[-1]
    assert last.name == "vision.global_layers[1]"
    assert last is model.model.vision_model.global_transformer.layers[1]
    with model.trace(**attending.inputs):
        leaving = last.layer_output.save()
        output = model.vision.tower_output.save()
    assert torch.equal(leaving, output)
    assert model.support()["vision.global_layers.attention_output"] is None


def test_prompts_with_other_numbers_of_pictures_are_refused_together(attending):
    first = attending.row.solo(0)
    second = {**first, **{key: first[key].repeat_interleave(2, dim=1) for key in ("pixel_values", "aspect_ratio_ids")}}
    second["input_ids"] = first["input_ids"].clone()
    second["input_ids"][0, -1] = attending.model.placeholder("image")
    second["aspect_ratio_mask"] = first["aspect_ratio_mask"].repeat_interleave(2, dim=1)
    second["cross_attention_mask"] = first["cross_attention_mask"].repeat_interleave(2, dim=2)
    second["input_ids"] = first["input_ids"].clone()
    second["input_ids"][:, -1] = attending.model.placeholder("image")
    with attending.model.trace(**second):
        alone = attending.model.vision.image_features_per_image.save()
    assert [len(one) for one in alone] == [34, 34]
    unmasked = {key: held for key, held in first.items() if key != "cross_attention_mask"}
    for other in (second, unmasked):
        with pytest.raises(InputError, match="use one invoke per trace"), attending.model.trace() as tracer:
            with tracer.invoke(**first):
                attending.model.logits.save()
            with tracer.invoke(**other):
                attending.model.logits.save()


def test_written_features_of_one_invoke_leave_the_other_alone(attending):
    model = attending.model
    first, second = attending.row.solo(0), attending.row.solo(1)
    seen = []
    for way in ("not", "in place", "assigned"):
        with model.trace() as tracer:
            with tracer.invoke(**first):
                if way == "in place":
                    model.vision.image_features[:] = 0.5
                elif way == "assigned":
                    model.vision.image_features = 0.5
                edited = model.logits.save()
            with tracer.invoke(**second):
                untouched = model.logits.save()
        seen.append((edited, untouched))
    assert torch.equal(seen[0][1], seen[1][1])
    assert torch.equal(seen[0][1], seen[2][1])
    assert torch.equal(seen[1][0], seen[2][0])
    assert not torch.allclose(seen[0][0], seen[1][0])


def test_a_picture_that_pads_a_stack_is_no_picture(attending):
    inputs = dict(attending.inputs)
    for key in ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask"):
        inputs[key] = inputs[key].repeat_interleave(2, dim=1)
    inputs["cross_attention_mask"] = inputs["cross_attention_mask"].repeat_interleave(2, dim=2)
    inputs["input_ids"] = inputs["input_ids"].clone()
    inputs["input_ids"][1, -1] = attending.model.placeholder("image")
    inputs["pixel_values"][0, 1], inputs["aspect_ratio_ids"][0, 1] = 0, 0
    with attending.model.trace(**inputs):
        whole = attending.model.vision.image_features.clone().save()
        split = attending.model.vision.image_features_per_image.save()
        attending.model.vision.image_features_per_image = [one * 0 for one in split]
        written = attending.model.vision.image_features.save()
    each = whole.shape[1] // 2
    assert torch.equal(torch.stack(split), torch.stack([whole[0, :each], whole[1, :each], whole[1, each:]]))
    assert torch.equal(written[0, each:], whole[0, each:])
    assert not written[0, :each].any()
    assert not written[1].any()
