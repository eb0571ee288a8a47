"""A module that runs several times in a forward is served by call, and never silently the first."""

import pytest
import torch

from belvedere import InputError


@pytest.fixture
def both():
    """A picture of 4 x 6 patches, and a video of two frames of 2 x 4: the tower runs once for each."""
    made = torch.Generator().manual_seed(0)
    ids = torch.tensor([[9, 3, *[5] * 6, 4, 11, 3, *[6] * 2, 12, *[6] * 2, 4, 10]])
    return {
        "input_ids": ids,
        "pixel_values": torch.randn(24, 384, generator=made),
        "image_grid_thw": torch.tensor([[1, 4, 6]]),
        "pixel_values_videos": torch.randn(16, 384, generator=made),
        "video_grid_thw": torch.tensor([[2, 2, 4]]),
        "mm_token_type_ids": (ids == 5).int() + (ids == 6).int() * 2,
    }


def hooked_calls(module, inputs, path):
    seen = []
    handle = module.get_submodule(path).register_forward_hook(lambda *call: seen.append(call[-1]))
    with torch.no_grad():
        module(**inputs)
    handle.remove()
    return seen


def test_each_call_is_served_in_order(qwen, both):
    truth = hooked_calls(qwen.raw, both, "model.visual.blocks.1")
    assert len(truth) == 2
    vision = qwen.model.vision
    with qwen.model.trace(**both):
        first = vision.call(0).layers[1].layer_output.save()
        second = vision.call(1).layers[1].layer_output.save()
        features = vision.image_features.save()
        video = vision.video_features.save()
        calls = vision.num_calls
        entering = qwen.model.layers[0].layer_input.save()
        counted = torch.tensor(calls).save()
    assert torch.equal(first[0], truth[0])
    assert torch.equal(second[0], truth[1])
    assert counted == 2
    assert torch.equal(entering[both["input_ids"] == 5], features)
    assert torch.equal(entering[both["input_ids"] == 6], video)


def test_a_write_lands_at_its_own_call(qwen, both):
    model = qwen.model
    with model.trace(**both):
        model.vision.call(1).layers[2].layer_output = 0
        image = model.vision.image_features.save()
        video = model.vision.video_features.save()
    with model.trace(**both):
        model.vision.call(1).layers[2].layer_output[:] = 0
        in_place = model.vision.video_features.save()
    with model.trace(**both):
        plain = model.vision.image_features.save()
        other = model.vision.video_features.save()
    assert torch.equal(image, plain)
    assert not torch.allclose(video, other)
    assert torch.equal(video, in_place)


def test_a_read_that_does_not_say_which_call_is_refused_with_the_number(qwen, both):
    match = (
        r"vision.layers\[1\].layer_output was computed 2 times in 1 forward\(s\).*call\(0\).layer_output to .*call\(1\)"
    )
    with pytest.raises(InputError, match=match), qwen.model.trace(**both):
        qwen.model.vision.layers[1].layer_output.save()


def test_a_generation_that_runs_the_tower_twice_is_refused_too(qwen, both):
    with (
        pytest.raises(InputError, match=r"computed 2 times in 1 forward.*call\(0\).layer_output"),
        qwen.model.generate(**both, max_new_tokens=4, do_sample=False),
    ):
        qwen.model.vision.layers[1].layer_output.save()


def test_a_read_of_the_only_call_needs_no_number(qwen):
    with qwen.model.trace(**qwen.inputs):
        plain = qwen.model.vision.layers[1].layer_output.save()
    with qwen.model.trace(**qwen.inputs):
        named = qwen.model.vision.call(0).layers[1].layer_output.save()
    assert torch.equal(plain, named)


def test_a_step_of_a_generation_is_no_second_call(qwen):
    inputs = qwen.row.solo(1)
    with qwen.model.generate(**inputs, max_new_tokens=3, do_sample=False):
        features = qwen.model.vision.tower_output.save()
        stream = qwen.model.layers[0].layer_input.save()
    assert features.shape[1] == 8
    assert stream.shape[1] == inputs["input_ids"].shape[1]
