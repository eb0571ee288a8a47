"""A batched sweep, against one hooked forward of the raw module per cell."""

import pytest
import torch
from raw import captured, patched

from belvedere import InputError, Unavailable
from belvedere.experiments import logit_difference, patch, probability

VALUES = [
    f"{stack}layers.{name}"
    for stack in ("", "vision.")
    for name in ("layer_input", "layer_output", "attention_output", "mlp_output")
]
ANSWER, OTHER = 9, 20
METRIC = logit_difference(ANSWER, OTHER)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def difference(logits):
    return (logits[ANSWER] - logits[OTHER]).float()


@pytest.mark.parametrize("value", VALUES)
def test_a_batched_sweep_is_one_hooked_forward_per_cell(rig, value):
    positions = [2, 5, 17, 30]
    if not value.startswith("vision."):
        positions = [0, 5, 9, rig.clean["input_ids"].shape[1] - 1]
    result = patch(rig.model, rig.clean, rig.corrupt, value, METRIC, positions=positions, batch_cells=3)
    by_hand = [[difference(patched(rig, value, layer, [p])) for p in positions] for layer in result.layers]
    torch.testing.assert_close(result.raw, torch.tensor(by_hand), **CLOSE)
    assert result.layers == tuple(range(len(result.layers)))
    assert len(result.layers) > 2


@pytest.mark.parametrize("value", ["layers.layer_output", "vision.layers.layer_output"])
def test_several_positions_are_patched_together(rig, value):
    groups = [[5, 6, 12], [9], range(4, 8)]
    result = patch(rig.model, rig.clean, rig.corrupt, value, METRIC, positions=groups, layers=[1], batch_cells=2)
    by_hand = [difference(patched(rig, value, 1, group)) for group in groups]
    torch.testing.assert_close(result.raw, torch.tensor([by_hand]), **CLOSE)
    assert result.positions == ((5, 6, 12), (9,), (4, 5, 6, 7))


def test_zero_is_the_corrupt_run_and_one_the_clean(rig):
    place = rig.native("layers.layer_input", 0)
    clean, corrupt = (difference(captured(rig.raw, place, given)[1]) for given in (rig.clean, rig.corrupt))
    result = patch(rig.model, rig.clean, rig.corrupt, "layers.layer_input", METRIC, layers=[0, 2])
    torch.testing.assert_close(torch.tensor([result.clean, result.corrupt]), torch.stack([clean, corrupt]), **CLOSE)
    torch.testing.assert_close(result.effects, (result.raw - corrupt) / (clean - corrupt), atol=1e-3, rtol=1e-3)


def test_the_whole_stream_restores_the_clean_run(rig):
    everything = [range(rig.clean["input_ids"].shape[1])]
    result = patch(rig.model, rig.clean, rig.corrupt, "layers.layer_output", METRIC, positions=everything)
    torch.testing.assert_close(result.effects, torch.ones(len(result.layers), 1), atol=1e-3, rtol=0)


def test_a_text_sweep_is_over_the_image_tokens_unless_told_otherwise(rig):
    result = patch(rig.model, rig.clean, rig.corrupt, "layers.layer_input", METRIC, layers=[0])
    places = (rig.clean["input_ids"][0] == 5).nonzero().flatten().tolist()
    assert result.positions == tuple((place,) for place in places)


def test_a_tower_sweep_is_over_the_patches_without_cls(llava_rig, qwen_rig):
    value = "vision.layers.layer_input"
    result = patch(llava_rig.model, llava_rig.clean, llava_rig.corrupt, value, METRIC, layers=[0])
    assert result.positions == tuple((row,) for row in [*range(1, 17), *range(18, 34)])
    result = patch(qwen_rig.model, qwen_rig.clean, qwen_rig.corrupt, value, METRIC, layers=[0])
    assert result.positions == tuple((row,) for row in range(40))


def test_the_block_that_llava_does_not_read_has_no_effect(llava_rig):
    value = "vision.layers.layer_input"
    result = patch(llava_rig.model, llava_rig.clean, llava_rig.corrupt, value, METRIC, positions=[3, 20], layers=[1, 2])
    assert result.effects[0].abs().min() > 1e-3
    torch.testing.assert_close(result.effects[1], torch.zeros(2), atol=1e-3, rtol=0)


def test_negative_positions_count_from_the_end(qwen_rig):
    length = qwen_rig.clean["input_ids"].shape[1]
    given = (qwen_rig.model, qwen_rig.clean, qwen_rig.corrupt, "layers.layer_output", METRIC)
    result = patch(*given, positions=[-1], layers=[3])
    assert result.positions == ((length - 1,),)
    torch.testing.assert_close(result.effects, torch.ones(1, 1), atol=1e-3, rtol=0)


def test_padding_on_the_right_moves_the_token_that_is_measured(llava_rig):
    padded = [
        {
            "input_ids": torch.nn.functional.pad(given["input_ids"], (0, 3)),
            "attention_mask": torch.nn.functional.pad(given["attention_mask"], (0, 3)),
            "pixel_values": given["pixel_values"],
        }
        for given in (llava_rig.clean, llava_rig.corrupt)
    ]
    result = patch(llava_rig.model, *padded, "layers.layer_input", METRIC, layers=[0], positions=[5])
    torch.testing.assert_close(result.raw[0, 0], difference(patched(llava_rig, "layers.layer_input", 0, [5])), **CLOSE)


def test_a_function_of_the_logits_is_a_metric(qwen_rig):
    seen = []

    def entropy(logits):
        seen.append(tuple(logits.shape))
        chances = logits.softmax(-1)
        return -(chances * chances.log()).sum(-1)

    given = (qwen_rig.model, qwen_rig.clean, qwen_rig.corrupt, "layers.layer_output", entropy)
    result = patch(*given, layers=[0], positions=[5, 6, 7], batch_cells=2)
    assert seen == [(1, 64), (1, 64), (2, 64), (1, 64)]
    assert result.settings["metric"] == "entropy"
    logits = patched(qwen_rig, "layers.layer_output", 0, [6]).softmax(-1)
    torch.testing.assert_close(result.raw[0, 1], -(logits * logits.log()).sum().float(), **CLOSE)


def test_the_metrics_are_what_they_say():
    logits = torch.tensor([[0.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
    assert logit_difference(2, 0)(logits).tolist() == [3.0, 0.0]
    torch.testing.assert_close(
        probability(1)(logits), torch.tensor([1 / (1 + 2.718281828**2 + 2.718281828**-1), 1 / 3])
    )
    assert str(logit_difference(2, 0)) == "logit difference, token 2 - token 0"


def test_patching_leaves_no_gradient_and_no_trace_behind(rig):
    with torch.enable_grad():
        result = patch(rig.model, rig.clean, rig.corrupt, "layers.layer_output", METRIC, layers=[0], positions=[5])
    assert not result.raw.requires_grad
    with rig.model.trace(**rig.clean):
        logits = rig.model.logits.save()
    assert torch.equal(logits, rig.raw(**rig.clean).logits)


def test_a_text_model_is_patched_at_every_token(checkpoint):
    if checkpoint.row.tower:
        return
    ids = checkpoint.inputs["input_ids"][1:]
    other = ids.clone()
    other[0, 4] = 8 + (other[0, 4] - 7) % 56
    result = patch(checkpoint.model, {"input_ids": ids}, {"input_ids": other}, "layers.layer_input", METRIC, layers=[0])
    assert len(result.positions) == ids.shape[1]
    expected = torch.zeros(1, ids.shape[1])
    expected[0, 4] = 1
    if checkpoint.row.besides:
        # The token enters the blocks beside the stream too, so the stream alone does not carry all of it.
        assert (result.effects - expected)[0, 4].abs() > 1e-3
        expected[0, 4] = result.effects[0, 4]
    torch.testing.assert_close(result.effects, expected, atol=1e-3, rtol=0)


# Refusals


def refused(rig, value="layers.layer_input", metric=METRIC, clean=None, corrupt=None, **options):
    with pytest.raises(InputError) as caught:
        patch(rig.model, clean or rig.clean, corrupt or rig.corrupt, value, metric, **options)
    return str(caught.value)


def test_prompts_of_unequal_length_are_refused(llava_rig):
    longer = dict(llava_rig.corrupt)
    for key, fill in (("input_ids", 11), ("attention_mask", 1)):
        longer[key] = torch.nn.functional.pad(longer[key], (0, 2), value=fill)
    said = refused(llava_rig, corrupt=longer)
    assert "the clean prompt has 41 tokens and the corrupt one 43" in said


def test_pictures_of_unequal_size_are_refused(qwen_rig):
    turned = {**qwen_rig.corrupt, "image_grid_thw": torch.tensor([[1, 4, 4], [1, 6, 4]])}
    said = refused(qwen_rig, corrupt=turned)
    assert "4 x 4, 4 x 6" in said
    assert "4 x 4, 6 x 4" in said
    assert "resize" in said


def test_image_tokens_at_other_places_are_refused(llava_rig):
    ids = llava_rig.corrupt["input_ids"].roll(1, dims=1)
    said = refused(llava_rig, corrupt={**llava_rig.corrupt, "input_ids": ids})
    assert "image tokens stand at different positions" in said


def test_two_prompts_at_once_are_refused(llava):
    with pytest.raises(InputError, match="the clean input has 2 prompts"):
        patch(llava.model, llava.inputs, llava.inputs, "layers.layer_input", METRIC)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("layer_output", "write 'layers.<value>'"),
        ("layers.0.layer_output", "without block numbers"),
        ("layers.nothing", "no block has a value 'nothing'; values with positions: layer_input, layer_output"),
        ("layers.attention_probabilities", "[batch, heads, seq, keys] and not one vector per position"),
    ],
)
def test_a_value_that_cannot_be_patched_is_refused(rig, value, said):
    assert said in refused(rig, value=value)


def test_a_value_that_the_checkpoint_lacks_says_why(llava_rig, checkpoint):
    with pytest.raises(Unavailable, match="image features enter this model once"):
        patch(llava_rig.model, llava_rig.clean, llava_rig.corrupt, "layers.deepstack_output", METRIC)
    if checkpoint.row.tower:
        return
    ids = {"input_ids": checkpoint.inputs["input_ids"][1:]}
    with pytest.raises(Unavailable, match="is a text model and has no tower"):
        patch(checkpoint.model, ids, ids, "vision.layers.layer_input", METRIC)


def test_a_tower_sweep_without_a_picture_is_refused(llava_rig):
    ids = torch.tensor([[1, 11, 12, 13]])
    said = refused(llava_rig, "vision.layers.layer_input", clean={"input_ids": ids}, corrupt={"input_ids": ids})
    assert "no pictures" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layers": [7]}, "there is no block 7; layers.layer_input has blocks 0 to"),
        ({"layers": []}, "`layers` is empty"),
        ({"positions": [99]}, "there is no position 99"),
        ({"positions": []}, "`positions` is empty"),
        ({"positions": [[1], []]}, "`positions` is empty or has an empty group"),
        ({"batch_cells": 0}, "batch_cells is 0"),
    ],
)
def test_blocks_and_positions_that_do_not_exist_are_refused(rig, options, said):
    assert said in refused(rig, **options)


def test_a_metric_that_cannot_tell_the_runs_apart_is_refused(rig):
    assert "there is nothing to restore" in refused(rig, corrupt=rig.clean)


def test_a_metric_of_the_wrong_shape_is_refused(rig):
    assert "[rows, vocab] -> [rows]" in refused(rig, metric=lambda logits: logits[:, :2])
    assert "there is no token 64; the vocabulary has 64" in refused(rig, metric=probability(64))


def test_an_input_that_is_no_mapping_is_refused(rig):
    assert "pass what `trace` takes by keyword" in refused(rig, clean="a prompt")
