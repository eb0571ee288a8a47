"""A sound beside a picture: features enter at their own placeholders, and a picture's value is not the sound's."""

import pytest
import torch
from truth import input_of

from belvedere import InputError
from belvedere.testing.zoo.omni import SOUND_TOKEN


@pytest.fixture
def thinker():
    from conftest import _built

    return _built["qwen2_5_omni_thinker", "sdpa"]


@pytest.fixture
def heard(thinker):
    """One prompt with a picture, and before it a sound of five tokens."""
    own = thinker.row.solo(1)
    ids = torch.cat([torch.tensor([[9, 2, *[SOUND_TOKEN] * 5, 1, 10]]), own["input_ids"]], dim=1)
    return {
        **own,
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "input_features": torch.randn(1, 8, 20, generator=torch.Generator().manual_seed(0)),
        "feature_attention_mask": torch.ones(1, 20, dtype=torch.long),
    }


def test_image_features_are_the_pictures_though_the_sound_is_written_first(thinker, heard):
    model = thinker.model
    with model.trace(**heard):
        mask = model.vision.image_token_mask.save()
        features = model.vision.image_features.save()
        logits = model.logits.save()
    entering = input_of(thinker.raw, heard, f"{thinker.row.blocks}.0")
    assert torch.equal(entering[mask], features)
    assert torch.equal(logits, thinker.raw(**heard).logits)


def test_written_image_features_leave_the_sound_alone(thinker, heard):
    model = thinker.model
    plain = input_of(thinker.raw, heard, f"{thinker.row.blocks}.0")
    with model.trace(**heard):
        mask = model.vision.image_token_mask.save()
        model.vision.image_features = 0.5
        entering = model.layers[0].layer_input.save()
    assert (entering[mask] == 0.5).all()
    assert torch.equal(entering[~mask], plain[~mask])


def test_a_sound_in_one_of_several_invokes_is_refused(thinker, heard):
    with pytest.raises(InputError, match="not sounds; trace each sound on its own"), thinker.model.trace() as tracer:
        with tracer.invoke(**heard):
            thinker.model.logits.save()
        with tracer.invoke(**thinker.row.solo(0)):
            thinker.model.logits.save()
