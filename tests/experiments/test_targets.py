"""What else is patched beside streams: heads, image features, what a state is made of, and positions by name or box."""

import nnsight
import pytest
import torch
from naive import hosted
from test_engine import METRIC, SINGLE, model_of, pair_of

from belvedere import InputError, Unavailable, shapes
from belvedere.experiments import Inside, PatchResult, ablate, attribute, logit_difference, patch, stand_in, token_boxes
from belvedere.testing import ROWS

BOTH, BLOCK, TOWER, ALL = (
    "from the patched block and position",
    "from the patched block",
    "from the patched tower block",
    "whole forwards",
)
HEADS = "layers.attention_head_outputs"
FEATURES = "vision.image_features"
FAMILIES = ("qwen2_5_vl", "llava_next", "qwen3_vl", "gemma3", "paligemma", "qwen3_5", "kimi_k25", "gemma4", "idefics2")


@torch.no_grad()
def swept(model, clean, corrupt, value, metric, layers, columns):
    """``[layer, column]``: the metric with some heads at some positions from the clean run, one trace per cell."""
    raw = torch.empty(len(layers), len(columns))
    last = int(clean.get("attention_mask", torch.ones_like(clean["input_ids"]))[0].nonzero().max())
    for row, layer in enumerate(layers):
        host, name = hosted(model, value, layer)
        with model.trace(**clean):
            source = getattr(host, name).clone().save()
        for column, (positions, heads) in enumerate(columns):
            with model.trace(**corrupt):
                written = getattr(host, name).clone()
                pictures, length = written.shape[0], written.shape[2]
                for position in positions:
                    for head in heads:
                        picture, own = divmod(position, length)
                        assert picture < pictures
                        written[picture, head, own] = source[picture, head, own]
                setattr(host, name, written)
                logits = nnsight.save(model.logits[:, last].float())
            raw[row, column] = metric(logits)
    return raw


def check(name, value, way=None, positions=None, heads=None, **options):
    model, (clean, corrupt) = model_of(name), pair_of(name)
    options = {"batch_cells": 3, **options}
    result = patch(model, clean, corrupt, value, METRIC, positions=positions, heads=heads, **options)
    if way is not None:
        assert result.settings["cells"] == way, result.settings
    columns = list(zip(result.positions, result.heads, strict=True))
    by_hand = swept(model, clean, corrupt, value, METRIC, result.layers, columns)
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=0)
    assert (by_hand - result.corrupt).abs().max() > 1e-5
    return result


# Heads


@pytest.mark.parametrize("name", FAMILIES)
def test_a_head_of_the_text_equals_one_trace_per_cell(name):
    result = check(name, HEADS, BOTH)
    length = ROWS[name].solo(0)["input_ids"].shape[1]
    count = model_of(name).num_heads
    assert result.heads == tuple((head,) for head in range(count))
    assert result.positions == (tuple(range(length)),) * count
    assert result.names == tuple(f"head {head}" for head in range(count))


@pytest.mark.parametrize("name", FAMILIES)
def test_heads_at_positions_equal_one_trace_per_cell(name):
    length = ROWS[name].solo(0)["input_ids"].shape[1]
    result = check(name, HEADS, BOTH, positions=[6, [4, length // 2], -1], heads=[0, [1, 3]])
    assert result.names[:3] == ("head 0 at 6", "head 1, 3 at 6", "head 0 at 4 and 1 more")
    assert result.heads == ((0,), (1, 3)) * 3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_head_of_the_tower_equals_one_trace_per_cell(name):
    check(name, f"vision.{HEADS}", TOWER, batch_cells=2, heads=[-1, [0, 1]])
    check(name, f"vision.{HEADS}", TOWER, batch_cells=2, heads=[1], positions=[1, [3, 6]])


@pytest.mark.trained
@pytest.mark.parametrize("value", [HEADS, f"vision.{HEADS}"])
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_heads_of_a_trained_checkpoint_equal_one_trace_per_cell(name, value):
    model = model_of(name)
    scenes = shapes.pair(1, checkpoint=name, images=1)
    clean, corrupt = (dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes)
    words = [model.tokenizer(s.answer, add_special_tokens=False)["input_ids"][0] for s in scenes]
    metric = logit_difference(*words)
    for positions in (None, [23, [40, 61]]):
        result = patch(model, clean, corrupt, value, metric, positions=positions, heads=[0, [1, 2]])
        assert result.settings["cells"] == (TOWER if value.startswith("vision.") else BOTH), result.settings
        columns = list(zip(result.positions, result.heads, strict=True))
        by_hand = swept(model, clean, corrupt, value, metric, result.layers, columns)
        effects = (by_hand - result.corrupt) / (result.clean - result.corrupt)
        torch.testing.assert_close(result.effects, effects, atol=1e-5, rtol=0)


QUERIES = ("attention_queries", "attention_keys", "attention_values")


@pytest.mark.parametrize("name", ["llava", "qwen3_5", "qwen2_5_vl", "gemma3", "kimi_k25"])
@pytest.mark.parametrize("value", QUERIES)
def test_queries_keys_and_values_are_patched_by_head(name, value):
    blocks = model_of(name).layers
    layers = [number for number, block in enumerate(blocks) if "self_attn" in vars(block)]
    check(name, f"layers.{value}", ALL, heads=[0, 1], positions=[6, [4, 9]], layers=layers)


@pytest.mark.parametrize("value", [*QUERIES, "betas", "decays"])
def test_what_a_state_is_made_of_is_patched_by_head_and_position(value):
    model = model_of("qwen3_5")
    layers = [number for number, block in enumerate(model.layers) if "linear_attn" in vars(block)]
    result = check("qwen3_5", f"layers.{value}", ALL, heads=[0, 1], positions=[6, [4, 12]], layers=layers)
    assert result.layers == tuple(layers)


def test_a_block_with_fewer_keys_is_left_out_or_told():
    result = check("qwen3_5", HEADS, BOTH, heads=[0])
    assert len(result.layers) < model_of("qwen3_5").num_layers


# Image features


@torch.no_grad()
def features_swept(model, clean, corrupt, metric, groups):
    tokens = (clean["input_ids"][0] == model.placeholder("image")).nonzero().flatten().tolist()
    with model.trace(**clean):
        source = model.vision.image_features.clone().save()
    scores = []
    for group in groups:
        with model.trace(**corrupt):
            written = model.vision.image_features.clone()
            for position in group:
                written[tokens.index(position)] = source[tokens.index(position)]
            model.vision.image_features = written
            logits = model.logits[:, -1].float().save()
        scores.append(metric(logits))
    return torch.stack(scores, 1)


@pytest.mark.parametrize("name", [*FAMILIES, "llama4"])
def test_a_feature_equals_one_trace_per_cell(name):
    model, (clean, corrupt) = model_of(name), pair_of(name)
    tokens = (clean["input_ids"][0] == model.placeholder("image")).nonzero().flatten().tolist()
    positions = [tokens[0], tokens[-1], tokens[1:3], "image"]
    result = patch(model, clean, corrupt, FEATURES, METRIC, positions=positions, batch_cells=3)
    assert result.settings["cells"] == BOTH, result.settings
    by_hand = features_swept(model, clean, corrupt, METRIC, result.positions)
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=0)
    assert (by_hand - result.corrupt).abs().max() > 1e-4


def test_features_are_swept_over_the_image_tokens():
    model, (clean, corrupt) = model_of("llava"), pair_of("llava")
    result = patch(model, clean, corrupt, FEATURES, METRIC)
    tokens = (clean["input_ids"][0] == model.placeholder("image")).nonzero().flatten().tolist()
    assert result.positions == tuple((place,) for place in tokens)
    assert result.layers == (-1,)
    assert "block" not in repr(result)
    assert "at image features, position" in repr(result)
    assert result.lines()[0][0] == "image features"
    axes, _ = result.plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["image features"]
    stream = patch(model, clean, corrupt, "layers.layer_input", METRIC, layers=[0])
    torch.testing.assert_close(result.raw, stream.raw)
