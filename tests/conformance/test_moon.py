"""MoonViT under Kimi K2.5: frames pooled, placeholders that are embedded as another token, one segment per video."""

import pytest
import torch
from truth import hooked, output_of


@pytest.fixture
def kimi():
    from conftest import _built

    return _built["kimi_k25", "sdpa"]


def test_the_mask_is_of_the_prompts_ids_though_the_embedding_gets_others(kimi):
    with kimi.model.trace(**kimi.inputs):
        mask = kimi.model.vision.image_token_mask.save()
        embedded = kimi.model.token_embeddings.save()
    stack = kimi.row.stack
    (ids,), _, _ = hooked(kimi.raw, kimi.inputs, f"{stack}.embed_tokens")[f"{stack}.embed_tokens"]
    assert torch.equal(mask, kimi.inputs["input_ids"] == 5)
    assert not (ids == 5).any()
    table = kimi.raw.get_submodule(f"{stack}.embed_tokens").weight
    assert torch.equal(embedded[mask], table[:1].expand_as(embedded[mask]))


def test_folded_patches_enter_the_projectors_mlp(kimi):
    with kimi.model.trace(**kimi.inputs):
        output = kimi.model.vision.tower_output.save()
        merged = kimi.model.vision.merged_patches.save()
    path = "model.mm_projector.in_proj"
    entering = hooked(kimi.raw, kimi.inputs, path)[path][0][0]
    assert torch.equal(merged, entering.flatten(0, 1))
    assert merged.shape == (14, kimi.model.vision.axis_size("merged_hidden"))
    assert torch.equal(output[0], output_of(kimi.raw, kimi.inputs, "model.vision_tower.final_layernorm"))


def test_a_video_is_one_segment_and_its_frames_are_pooled(kimi):
    ids = torch.tensor([[9, 3, *[6] * 6, 4, 10]])
    pixels = torch.randn(48, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids, "pixel_values_videos": pixels, "video_grid_thw": torch.tensor([[2, 4, 6]])}
    with kimi.model.trace(**inputs):
        mask = kimi.model.vision.video_token_mask.save()
        patterns = kimi.model.vision.layers[0].self_attn.segment_probabilities.save()
        features = kimi.model.vision.video_features.save()
        entering = kimi.model.layers[0].layer_input.save()
    assert mask.sum() == 6
    assert torch.equal(entering[mask], features)
    assert [tuple(one.shape) for one in patterns] == [(2, 48, 48)]


def test_patterns_of_each_picture_by_hand(kimi):
    attention = kimi.model.vision.layers[1].self_attn
    with kimi.model.trace(**kimi.inputs):
        queries = attention.attention_queries.save()
        keys = attention.attention_keys.save()
        values = attention.attention_values.save()
        patterns = attention.segment_probabilities.save()
        outputs = attention.attention_head_outputs.save()
    start = 0
    for pattern in patterns:
        run = slice(start, start + pattern.shape[-1])
        scores = queries[0, :, run] @ keys[0, :, run].transpose(1, 2) / 12**0.5
        torch.testing.assert_close(pattern, scores.softmax(-1), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(pattern @ values[0, :, run], outputs[0, :, run], atol=1e-5, rtol=1e-5)
        start = run.stop
    assert start == 56
