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
    check(name, f"vision.{HEADS}", TOWER, batch_cells=2, heads=[0, [1, 2]])
    check(name, f"vision.{HEADS}", TOWER, batch_cells=2, heads=[1], positions=[1, [3, 6]])
