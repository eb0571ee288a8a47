"""Tower features that are added between text blocks are what hooks see on both sides of the addition."""

import pytest
import torch
from truth import first, hooked, input_of
from walk import path

from belvedere import InputError, StandardizedTransformer
from belvedere.testing import ROWS

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def fed(model):
    """The numbers of the blocks after which features are added."""
    return [number for number, block in enumerate(model.layers) if block.support()["deepstack_output"] is None]


WITH = [name for name, row in ROWS.items() if fed(StandardizedTransformer.from_config(row.config()))]


@pytest.fixture(params=WITH)
def stacked(request):
    from conftest import _built

    return _built[request.param, "sdpa"]


def test_what_enters_a_block_is_what_left_the_one_before_and_its_features_at_the_image_tokens(stacked):
    model, inputs, native = stacked.model, stacked.inputs, stacked.row.blocks
    numbers = range(model.num_layers - 1)
    seen = hooked(stacked.raw, inputs, *(f"{native}.{number}" for number in range(model.num_layers)))
    for number in numbers:
        leaving = first(seen[f"{native}.{number}"][2])
        args, kwargs, _ = seen[f"{native}.{number + 1}"]
        added = (args[0] if args else kwargs["hidden_states"]) - leaving
        if number not in fed(model):
            assert not added.any()
            continue
        with model.trace(**inputs):
            mask = model.vision.image_token_mask.save()
            features = model.layers[number].deepstack_output.save()
        assert not added[~mask].any()
        assert features.shape == (sum(stacked.row.pictures), model.hidden_size)
        torch.testing.assert_close(added[mask], features, **CLOSE)


def test_each_blocks_features_are_its_own_mergers(stacked):
    model = stacked.model
    for number in fed(model):
        merger = f"model.visual.deepstack_merger_list.{number}"
        with model.trace(**stacked.inputs):
            features = model.layers[number].deepstack_output.save()
        assert torch.equal(features, first(hooked(stacked.raw, stacked.inputs, merger)[merger][2]))


def test_written_features_enter_the_next_block_alone(stacked):
    model, inputs = stacked.model, stacked.inputs
    for number in fed(model)[:-1]:
        plain = input_of(stacked.raw, inputs, f"{stacked.row.blocks}.{number + 1}")
        with model.trace(**inputs):
            mask = model.vision.image_token_mask.save()
            was = model.layers[number].deepstack_output.clone().save()
            model.layers[number].deepstack_output = 0
            entering = model.layers[number + 1].layer_input.save()
            later = model.layers[number + 1].deepstack_output.save()
        torch.testing.assert_close(plain[mask] - entering[mask], was, **CLOSE)
        assert torch.equal(plain[~mask], entering[~mask])
        assert later.any()


def test_a_block_without_names_those_that_have_one(stacked):
    last = stacked.model.layers[-1]
    named = f"blocks with deepstack_output: {fed(stacked.model)[0]}-{fed(stacked.model)[-1]}"
    assert named in last.support()["deepstack_output"]
    assert path(last, last.values()["deepstack_output"]).startswith("layers[")


def test_without_a_picture_there_are_no_features(stacked):
    ids = {"input_ids": torch.tensor([[9, 10, 11]])}
    with pytest.raises(InputError, match="its input shows no picture"), stacked.model.trace(**ids):
        stacked.model.layers[0].deepstack_output.save()


def test_a_generation_adds_features_to_the_prompt_only(stacked):
    model, inputs = stacked.model, stacked.row.solo(1)
    with model.trace(**inputs):
        alone = model.layers[0].deepstack_output.save()
    with model.generate(**inputs, max_new_tokens=3, do_sample=False) as tracer:
        features = model.layers[0].deepstack_output.save()
        ids = tracer.result.save()
    assert torch.equal(features, alone)
    assert torch.equal(ids, stacked.raw.generate(**inputs, max_new_tokens=3, do_sample=False))
    lengths = []
    with model.generate(**inputs, max_new_tokens=2, do_sample=False) as tracer:
        for step in tracer.iter[:2]:
            if step == 0:
                model.layers[0].deepstack_output[:] = 0
            lengths.append(model.layers[1].layer_input.shape[1])
    assert lengths == [inputs["input_ids"].shape[1], 1]
