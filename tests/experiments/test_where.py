"""Positions by name, by number and by box."""

import pytest
import torch
from test_truth import model_of

from belvedere import InputError, shapes
from belvedere.experiments import Inside, kl_divergence, logit, patch, rank
from belvedere.experiments.metrics import bound, measured
from belvedere.experiments.runs import encoded
from belvedere.experiments.where import positions_of


def test_names_of_a_prompt(rig):
    side = encoded(rig.model, rig.clean, "clean")
    shown = (rig.clean["input_ids"][0] == 5).nonzero().flatten().tolist()
    rest = [place for place in range(side.length) if place not in shown]
    assert positions_of(rig.model, side, "image") == tuple(shown)
    assert positions_of(rig.model, side, "text") == tuple(rest)
    assert positions_of(rig.model, side, "last") == (side.length - 1,)
    assert positions_of(rig.model, side, "all") == tuple(range(side.length))
    assert positions_of(rig.model, side, -1) == (side.length - 1,)
    assert positions_of(rig.model, side, [4, 2, 2]) == (2, 4)


def test_names_of_a_tower(llava_rig, qwen_rig):
    side = encoded(llava_rig.model, llava_rig.clean, "clean")
    patches = [*range(1, 17), *range(18, 34)]
    assert positions_of(llava_rig.model, side, "patches", tower=True) == tuple(patches)
    assert positions_of(llava_rig.model, side, "other", tower=True) == (0, 17)
    side = encoded(qwen_rig.model, qwen_rig.clean, "clean")
    assert positions_of(qwen_rig.model, side, "patches", tower=True) == tuple(range(40))
    with pytest.raises(InputError, match="this input has no positions 'other'"):
        positions_of(qwen_rig.model, side, "other", tower=True)


@pytest.mark.parametrize("where", ["patches", 99, [], Inside((0, 0, 4, 4), image=5)])
def test_what_is_no_position_is_refused(llava_rig, where):
    with pytest.raises(InputError):
        positions_of(llava_rig.model, encoded(llava_rig.model, llava_rig.clean, "clean"), where)


@pytest.mark.trained
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_a_box_is_the_tokens_under_it_and_outside_the_others(name):
    model = model_of(name)
    scene, _ = shapes.pair(3, checkpoint=name)
    encoding = model.processor(text=scene.prompt, images=scene.images, return_tensors="pt")
    places = (encoding["input_ids"][0] == model.processor.image_token_id).nonzero().flatten()
    under = tuple(places[scene.tokens_under(scene.changed)].tolist())
    box = Inside(scene.changed, image=scene.asked, size=scene.image.size)
    for given in ({"text": scene.prompt, "images": scene.images}, encoding):
        side = encoded(model, given, "shown")
        assert positions_of(model, side, box) == under
        outside = Inside(scene.changed, image=scene.asked, size=scene.image.size, outside=True)
        both = {*positions_of(model, side, outside), *under}
        assert len(both) == len(places) or len(scene.pictures) == 2
    assert str(box).startswith("inside (")
    with pytest.raises(InputError, match=r"pass Inside\(box, size="):
        positions_of(model, encoded(model, encoding, "shown"), Inside(scene.changed, image=scene.asked))


def test_the_rank_counts_the_likelier_tokens():
    logits = torch.tensor([[0.0, 3.0, 1.0, 3.0], [2.0, 0.0, 0.0, 1.0]])
    assert rank(2)(logits).tolist() == [2.0, 2.0]
    assert rank(1)(logits).tolist() == [0.0, 2.0]
    assert logit(3)(logits).tolist() == [3.0, 1.0]
    assert str(rank(2)) == "rank of token 2"


def test_the_divergence_is_the_sum_of_p_times_the_log_of_p_over_q():
    clean, other = torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 2.0]])
    p, q = clean.softmax(-1), other.softmax(-1)
    torch.testing.assert_close(kl_divergence(clean)(other), (p * (p / q).log()).sum(-1))
    unseen = torch.tensor([[0.0, 1.0, -torch.inf]])
    assert torch.isfinite(kl_divergence(unseen)(other)).all()
    with pytest.raises(InputError, match="measured against the clean run"):
        kl_divergence()(other)
    assert measured(bound(kl_divergence(), clean), other).tolist()[1] == 0


def test_patching_measures_the_divergence_from_its_own_clean_run(rig):
    result = patch(
        rig.model, rig.clean, rig.corrupt, "layers.layer_output", kl_divergence(), layers=[1], positions=[-1]
    )
    clean, corrupt = (rig.raw(**given).logits[0, -1:].log_softmax(-1) for given in (rig.clean, rig.corrupt))
    expected = (clean.exp() * (clean - corrupt)).sum()
    assert result.clean == 0
    assert result.corrupt == pytest.approx(float(expected), rel=1e-4)
    assert result.settings["metric"] == "KL divergence"
