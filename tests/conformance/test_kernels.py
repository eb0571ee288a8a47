"""Values do not depend on the kernel: a flash attention, which takes segments in one call and a 2-dimensional mask.

The kernel itself is not to be had on a CPU. What stands in for it takes flash attention's arguments, in its form, and
computes the same attention; the model calls it as it calls the real one.
"""

import pytest
import torch

from belvedere import StandardizedTransformer
from belvedere.testing import build

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def flash_like(module, query, key, value, attention_mask, scaling=None, is_causal=None, cu_seq_lens_q=None, **_):
    """Attention from flash attention's arguments: packed bounds, or a padding mask ``[batch, keys]`` with causality."""
    groups = query.shape[1] // key.shape[1]
    key, value = (held.repeat_interleave(groups, dim=1) for held in (key, value))
    length = query.shape[2]
    allowed = torch.ones(length, length, dtype=torch.bool)
    if is_causal if is_causal is not None else module.is_causal:
        allowed = allowed.tril()
    if cu_seq_lens_q is not None:
        number = torch.bucketize(torch.arange(length), cu_seq_lens_q[1:], right=True)
        allowed = allowed & (number[:, None] == number[None, :])
    allowed = allowed[None, None]
    if attention_mask is not None:
        allowed = allowed & attention_mask.bool()[:, None, None, :]
    scores = (query @ key.transpose(2, 3) * scaling).masked_fill(~allowed, torch.finfo(query.dtype).min)
    return (scores.softmax(-1) @ value).transpose(1, 2), None


@pytest.fixture
def flash(monkeypatch):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "flash_attention_2", flash_like)

    def load(name):
        module = build(name)
        for held in module.modules():
            if hasattr(held, "config"):
                held.config._attn_implementation_internal = "flash_attention_2"
        return StandardizedTransformer(module)

    return load


def read(model, inputs, tower, text):
    held = []
    with model.trace(**inputs):
        if tower:
            held.append(model.vision.layers[1].self_attn.attention_queries.save())
            held.append(model.vision.layers[1].self_attn.attention_values.save())
            held.append(model.vision.layers[1].self_attn.segment_probabilities.save())
            held.append(model.vision.layers[1].self_attn.attention_head_outputs.save())
            held.append(model.vision.tower_output.save())
        held.append(model.layers[text].self_attn.attention_scores.save())
        held.append(model.layers[text].self_attn.attention_probabilities.save())
        held.append(model.layers[text].self_attn.attention_head_outputs.save())
        held.append(model.logits.save())
    return held


@pytest.mark.parametrize("name", ["llava", "qwen3_5", "llama", "qwen3_vl_moe", "glm4v", "qwen2_5_omni_thinker"])
def test_values_under_flash_attention_are_those_under_sdpa(name, flash, request):
    from conftest import _built

    checkpoint = _built[name, "sdpa"]
    inputs, tower = checkpoint.inputs, bool(checkpoint.row.tower)
    model = flash(name)
    ours = read(model, inputs, tower, 1)
    theirs = read(checkpoint.model, inputs, tower, 1)
    real = inputs["attention_mask"].bool()
    for one, was in zip(ours, theirs, strict=True):
        if isinstance(one, list):
            for segment, other in zip(one, was, strict=True):
                torch.testing.assert_close(segment, other, **CLOSE)
        elif one.ndim == 4 and one.shape[2] == real.shape[1]:
            rows = (real[:, None, :, None] & (was > -1e30)).expand_as(one)
            torch.testing.assert_close(one[rows], was[rows], atol=1e-4, rtol=1e-4)
        elif one.shape[:2] == real.shape:
            torch.testing.assert_close(one[real], was[real], atol=1e-4, rtol=1e-4)
        else:
            torch.testing.assert_close(one, was, **CLOSE)


def test_a_written_segment_lands_under_flash_attention(flash, qwen):
    model = flash("qwen3_5")
    for one in (model, qwen.model):
        assert one.vision.layers[0].self_attn.is_flash is (one is model)
    written = []
    for one in (model, qwen.model):
        with one.trace(**qwen.inputs):
            one.vision.layers[0].self_attn.segment_probabilities[1][:] = 0.1
            stream = one.vision.layers[0].layer_output.save()
        written.append(stream)
    torch.testing.assert_close(*written, **CLOSE)
