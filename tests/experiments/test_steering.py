"""A direction and what it does, against raw hooks and the raw model's own generate."""

import pytest
import torch
from raw import captured
from test_truth import model_of

from belvedere import InputError, shapes
from belvedere.experiments import SteeringResult, SteeringVector, logit_difference, steer, steering_vector

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
METRIC = logit_difference(9, 20)


def stream(rig, layer, encoding):
    return captured(rig.raw, rig.native("layers.layer_output", layer), encoding)[0][0]


def direction_of(rig, layer=1, **options):
    return steering_vector(rig.model, [rig.clean], [rig.corrupt], layer, **options)


def image_tokens(rig):
    return (rig.clean["input_ids"][0] == 5).nonzero().flatten().tolist()


def raw_logits(rig, layer, vector, positions, steps, count=4):
    """The logits of each step of the raw model's generate, with a vector added by a hook at some steps."""
    path, _ = rig.native("layers.layer_output", layer)
    called = []

    def hook(_, args, output):
        held = (output[0] if isinstance(output, tuple) else output).clone()
        step = len(called)
        called.append(step)
        if step in steps:
            where = positions if step == 0 else slice(None)
            held[:, where] += vector.to(held.dtype)
        return (held, *output[1:]) if isinstance(output, tuple) else held

    handle = rig.raw.get_submodule(path).register_forward_hook(hook)
    try:
        out = rig.raw.generate(
            **rig.clean,
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
    finally:
        handle.remove()
    return torch.cat(out.logits).float()


@pytest.mark.parametrize("where", ["last", "image", [3, 4]])
def test_a_direction_is_a_difference_of_means(rig, where):
    places = {"last": [-1], "image": image_tokens(rig)}.get(where if isinstance(where, str) else "", where)
    found = direction_of(rig, positions=where)
    expected = stream(rig, 1, rig.clean)[places].mean(0) - stream(rig, 1, rig.corrupt)[places].mean(0)
    torch.testing.assert_close(found.vector, expected.float(), **CLOSE)
    torch.testing.assert_close(found.positive, torch.tensor([0.5]), **CLOSE)
    torch.testing.assert_close(found.negative, torch.tensor([-0.5]), **CLOSE)
    assert found.norm == pytest.approx(float(expected.norm()), rel=1e-4)


@pytest.mark.parametrize(("steps", "taken"), [("prompt", {0}), ("all", {0, 1, 2, 3}), ([1, 3], {1, 3})])
def test_steering_at_steps_is_a_hook_under_the_raw_generate(rig, steps, taken):
    found = direction_of(rig)
    where = image_tokens(rig)
    options = {"steps": steps, "positions": "image", "factors": (0, 8.0), "max_new_tokens": 4}
    result = steer(rig.model, rig.clean, found, metric=METRIC, **options)
    for row, factor in enumerate(result.factors):
        logits = raw_logits(rig, 1, factor * found.vector, where, taken)
        torch.testing.assert_close(result.scores[row], METRIC(logits[:1])[0], **CLOSE)
        own = [token for token in result.tokens[row].tolist() if token >= 0]
        assert own == logits.argmax(-1).tolist()[: len(own)]
    assert (result.scores[0] != result.scores[1]) == (0 in taken)


def test_only_the_positions_that_are_given_change(rig):
    found, places = direction_of(rig), image_tokens(rig)
    with rig.model.trace(**rig.clean):
        found.add(rig.model, 2.0, rig.model.vision.image_token_mask)
        steered = rig.model.layers[1].layer_output.save()
    change = steered[0] - stream(rig, 1, rig.clean)
    rest = [place for place in range(len(change)) if place not in places]
    assert change[rest].abs().max() == 0
    torch.testing.assert_close(change[places], (2 * found.vector).double().expand(len(places), -1), **CLOSE)


def test_the_model_is_clean_afterwards(rig):
    steer(rig.model, rig.clean, direction_of(rig), factors=(5.0,), steps="all", max_new_tokens=2)
    with rig.model.trace(**rig.clean):
        logits = rig.model.logits.save()
    assert torch.equal(logits, rig.raw(**rig.clean).logits)


def test_untouched_is_untouched_and_the_default_metric_is_the_change(rig):
    result = steer(rig.model, rig.clean, direction_of(rig), factors=(0, 3.0), max_new_tokens=1)
    assert result.scores[0] == 0
    assert result.scores[1] > 0
    assert result.settings["metric"] == "KL divergence"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": "never"}, "neither 'prompt' nor 'all'"),
        ({"max_new_tokens": 0}, "nothing would be written"),
        ({"factors": ()}, "nothing would be written"),
        ({"positions": 99}, "there is no position 99"),
    ],
)
def test_what_cannot_be_steered_is_refused(rig, options, said):
    with pytest.raises(InputError) as caught:
        steer(rig.model, rig.clean, direction_of(rig), **options)
    assert said in str(caught.value)


def test_a_direction_needs_two_sides_and_a_block(rig):
    with pytest.raises(InputError, match="needs positive and negative inputs"):
        steering_vector(rig.model, [rig.clean], [], 1)
    with pytest.raises(InputError, match="there is no block 9"):
        steering_vector(rig.model, [rig.clean], [rig.corrupt], 9)


def test_both_are_read_back_whole(rig, tmp_path):
    found = direction_of(rig)
    result = steer(rig.model, rig.clean, found, steps=[0, 1], factors=(0, 1), max_new_tokens=2)
    for kind, held in ((SteeringVector, found), (SteeringResult, result)):
        held.save(tmp_path / "held.safetensors")
        back = kind.load(tmp_path / "held.safetensors")
        assert repr(back) == repr(held)
        assert back.settings == held.settings
        assert back.table().row_count == 2
        assert back._repr_html_().count("<tr>") == 3
        assert held.plot().axes
    assert torch.equal(SteeringResult.load(tmp_path / "held.safetensors").tokens, result.tokens)
    with pytest.raises(InputError, match="holds no steering vector"):
        SteeringVector.load(tmp_path / "held.safetensors")


@pytest.mark.trained
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_a_direction_from_pictures_turns_the_answer(name):
    model = model_of(name)
    sides = {"red": [], "blue": []}
    for seed in range(120):
        scene = shapes.sample(seed, checkpoint=name, images=1, kind="color_of_shape")
        if scene.answer in sides:
            sides[scene.answer].append({"text": scene.prompt, "images": scene.images})
    held_out = sides["blue"].pop()
    found = steering_vector(model, sides["red"], sides["blue"], model.num_layers - 1)
    assert found.positive.min() > found.negative.max()
    result = steer(model, held_out, found, factors=(0, 1), max_new_tokens=3)
    assert result.texts == ("blue", "red")
