"""Each experiment on every row of the zoo: what it finds is the model's own, or it says why it cannot."""

import pytest
import torch
from naive import hosted
from truth import logits_of

from belvedere import InputError, Unavailable
from belvedere.experiments import knockout, lens, logit_difference, patch, relevance, tower_lens

METRIC = logit_difference(9, 20)
CLOSE = {"atol": 1e-5, "rtol": 1e-3}


def alone(checkpoint):
    return {**checkpoint.row.solo(0), **checkpoint.row.forward}


def or_reason(experiment):
    try:
        return experiment()
    except Unavailable as error:
        return str(error)


def chances(checkpoint, encoding):
    return logits_of(checkpoint.raw(**encoding))[0].float().softmax(-1)


def test_the_lens_ends_with_the_model_s_own_words(checkpoint):
    encoding = alone(checkpoint)
    result = lens(checkpoint.model, encoding, positions="all", watch=[9, 20], layers=[checkpoint.model.num_layers - 1])
    own = chances(checkpoint, encoding)[list(result.positions)]
    torch.testing.assert_close(result.watched[-1], own[:, [9, 20]], **CLOSE)


def test_a_whole_tower_read_behind_the_whole_text_is_the_model(wrapper):
    encoding, last = alone(wrapper), wrapper.model.num_layers - 1
    if wrapper.row.blockless:
        with pytest.raises(Unavailable, match="has no blocks"):
            tower_lens(wrapper.model, encoding)
        return
    result = tower_lens(wrapper.model, encoding, through=last, watch=[9])
    own = chances(wrapper, encoding)[list(result.positions)]
    torch.testing.assert_close(result.watched[-1, :, 0], own[:, 9], **CLOSE)


@pytest.mark.parametrize("stack", ["text", "vision"])
def test_a_cut_is_made_or_the_reason_is_given(wrapper, stack):
    encoding = alone(wrapper)
    edges = ("patches", "patches") if stack == "vision" else ("all", "all")
    result = or_reason(lambda: knockout(wrapper.model, encoding, edges, METRIC, stack=stack))
    if isinstance(result, str):
        assert "; " in result
        return
    assert torch.isfinite(result.raw).all()
    assert result.mass.max() <= 1.001
    assert result.mass.min() > 0.1
    assert result.effects.abs().max() > 1e-6
    pairs = {"one": edges, "other": (edges[0], [3, 4])}
    one, both = (knockout(wrapper.model, encoding, pairs, METRIC, stack=stack, batch_cells=n) for n in (1, 2))
    torch.testing.assert_close(one.raw, both.raw, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("method", ["gradient", "rollout", "weighted"])
def test_relevance_is_found_or_the_reason_is_given(checkpoint, method):
    result = or_reason(lambda: relevance(checkpoint.model, alone(checkpoint), method=method, answer=9))
    if isinstance(result, str):
        assert method != "gradient"
        assert "; " in result
        return
    assert torch.isfinite(result.relevance).all()
    assert result.relevance.abs().max() > 0
    if method == "rollout" and not hasattr(checkpoint.raw.get_submodule(checkpoint.row.attention(0)), "sinks"):
        torch.testing.assert_close(result.relevance.sum(1), torch.ones(1), **CLOSE)


def other(encoding):
    """Another input of the same shapes."""
    changed = dict(encoding)
    made = torch.Generator().manual_seed(7)
    if "pixel_values" in encoding:
        changed["pixel_values"] = torch.randn(encoding["pixel_values"].shape, generator=made)
    else:
        changed["input_ids"] = encoding["input_ids"].clone()
        changed["input_ids"][0, 4] = 8 + (int(encoding["input_ids"][0, 4]) - 7) % 56
    return changed


@pytest.mark.parametrize("stack", ["", "vision."])
def test_a_head_is_patched_or_the_reason_is_given(checkpoint, stack):
    model, clean = checkpoint.model, alone(checkpoint)
    corrupt, value = other(clean), f"{stack}layers.attention_head_outputs"
    options = {"heads": [1], "positions": [[5]], "batch_cells": 2}
    result = or_reason(lambda: patch(model, clean, corrupt, value, METRIC, **options))
    if isinstance(result, str):
        assert "; " in result
        return
    for row, layer in enumerate(result.layers[:2]):
        host, name = hosted(model, value, layer)
        with model.trace(**clean):
            held = getattr(host, name).clone().save()
        picture, place = divmod(5, held.shape[2])
        with torch.no_grad(), model.trace(**corrupt):
            getattr(host, name)[picture, 1, place] = held[picture, 1, place]
            logits = model.logits[:, -1].float().save()
        torch.testing.assert_close(result.raw[row], METRIC(logits), **CLOSE)


def test_image_features_are_patched_or_the_reason_is_given(wrapper):
    model, clean = wrapper.model, alone(wrapper)
    given = (model, clean, other(clean), "vision.image_features", METRIC)
    if model.vision.values()["image_features"].layout == "AttendedFeatures":
        with pytest.raises(InputError, match="writes nothing over placeholders"):
            patch(*given, positions="image")
        return
    result = patch(*given, positions="image")
    with model.trace(**clean):
        held = model.vision.image_features.clone().save()
    with torch.no_grad(), model.trace(**other(clean)):
        model.vision.image_features = held
        logits = model.logits[:, -1].float().save()
    torch.testing.assert_close(result.raw[0], METRIC(logits), **CLOSE)
