"""What Gemma 4 alone claims: the scatters of three kinds of input, inputs of a block's own, blocks that others need."""

import pytest
import torch
from conftest import _built
from transformers import AutoModelForImageTextToText, Gemma4AudioConfig, Gemma4UnifiedAudioConfig
from truth import hooked, input_of

from belvedere import StandardizedTransformer, Unavailable, WriteError
from belvedere.testing import ROWS
from belvedere.testing.weights import randomize


@pytest.fixture
def gemma():
    return _built["gemma4", "sdpa"]


SOUNDS = {
    "gemma4": Gemma4AudioConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        output_proj_dims=20,
        subsampling_conv_channels=[8, 4],
    ),
    "gemma4_unified": Gemma4UnifiedAudioConfig(audio_embed_dim=8),
}


@pytest.fixture(scope="module", params=list(SOUNDS))
def hearing(request):
    """A row, and its model and module with what hears beside what sees."""
    config = ROWS[request.param].config()
    config.audio_config = SOUNDS[request.param]
    model, raw = (randomize(AutoModelForImageTextToText.from_config(config)) for _ in range(2))
    return ROWS[request.param], StandardizedTransformer(model), raw


def with_everything(row, frames: int) -> dict[str, torch.Tensor]:
    """One prompt with a sound of four tokens, two pictures, and a video of two frames, in this order."""
    shown, made = row.solo(0), torch.Generator().manual_seed(1)
    # The video's frames are the two pictures once more, under its own placeholders.
    tokens = [*[6] * row.pictures[0], 12, *[6] * row.pictures[1]]
    ids = torch.cat([torch.tensor([[9, 7, 7, 7, 7]]), shown["input_ids"], torch.tensor([tokens])], dim=1)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": shown["pixel_values"],
        "image_position_ids": shown["image_position_ids"],
        "pixel_values_videos": shown["pixel_values"] * 0.5,
        "video_position_ids": shown["image_position_ids"],
        "num_frames_per_video": torch.tensor([2]),
        "input_features": torch.randn(1, frames, 8, generator=made),
        "input_features_mask": torch.ones(1, frames, dtype=torch.bool),
    }


def test_pictures_video_and_sound_each_stand_at_their_own_placeholders(hearing):
    row, model, raw = hearing
    # An audio tower folds four frames into a token; without one, each is its own.
    inputs = with_everything(row, 4 if row.blockless else 16)
    with model.trace(**inputs):
        images = model.vision.image_token_mask.save()
        videos = model.vision.video_token_mask.save()
        features = model.vision.image_features.save()
        frames = model.vision.video_features.save()
    seen = hooked(raw, inputs, f"{row.blocks}.0", "model.embed_audio")
    entering = seen[f"{row.blocks}.0"][0][0]
    assert images.sum() == videos.sum() == sum(row.pictures[:2])
    assert torch.equal(entering[images], features)
    assert torch.equal(entering[videos], frames)
    assert torch.equal(entering[inputs["input_ids"] == 7], seen["model.embed_audio"][2][0])


def test_an_input_of_a_blocks_own_is_what_a_hook_sees(gemma):
    native = f"{gemma.row.blocks}.1"
    with gemma.model.trace(**gemma.inputs):
        own = gemma.model.layers[1].per_layer_input.save()
    assert torch.equal(own, hooked(gemma.raw, gemma.inputs, native)[native][0][1])


def test_a_block_that_others_attend_to_is_not_skipped(gemma):
    with pytest.raises(WriteError, match="cannot be skipped: its keys and values are those of blocks 3 too"):
        with gemma.model.trace(**gemma.inputs):
            gemma.model.skip_layers(1, 2)
    with gemma.model.trace(**gemma.inputs):
        gemma.model.skip_layers(1, 3)
        entering = gemma.model.norm.input.save()
    assert torch.equal(entering, input_of(gemma.raw, gemma.inputs, f"{gemma.row.blocks}.1"))


def test_pooled_patches_enter_the_projector(gemma):
    with gemma.model.trace(**gemma.inputs):
        rotary = gemma.model.vision.rotary.save()
        merged = gemma.model.vision.merged_patches.save()
    block = f"{gemma.row.tower}.2"
    seen = hooked(gemma.raw, gemma.inputs, "model.embed_vision.embedding_pre_projection_norm", block)
    assert torch.equal(merged, seen["model.embed_vision.embedding_pre_projection_norm"][0][0])
    assert merged.shape == (11, gemma.model.vision.axis_size("merged_hidden"))
    for ours, theirs in zip(rotary, seen[block][1]["position_embeddings"], strict=True):
        assert torch.equal(ours, theirs)
    assert gemma.model.vision.spatial_merge_size == 2


def test_the_towers_pattern_does_not_see_padding(gemma):
    attention = gemma.model.vision.layers[1].self_attn
    with gemma.model.trace(**gemma.inputs):
        values = attention.attention_values.save()
        pattern = attention.attention_probabilities.save()
        outputs = attention.attention_head_outputs.save()
    padding = (gemma.inputs["image_position_ids"] < 0).all(-1)
    assert pattern.masked_fill(~padding[:, None, None], 0).abs().max() == 0
    torch.testing.assert_close(pattern @ values, outputs, atol=1e-5, rtol=1e-5)


@pytest.fixture
def large():
    return _built["gemma4_large", "sdpa"]


def normed(block, number: int, held: torch.Tensor) -> torch.Tensor:
    return getattr(block, f"post_feedforward_layernorm_{number}")(held)


def test_the_mixture_beside_the_mlp_is_its_parameters_by_hand(large):
    native = f"{large.row.blocks}.1"
    block, mlp = large.raw.get_submodule(native), large.model.layers[1].mlp
    with large.model.trace(**large.inputs):
        dense = mlp.output.save()
        scores = mlp.router_logits.save()
        indices = mlp.expert_indices.save()
        weights = mlp.expert_weights.save()
        outputs = mlp.expert_outputs.save()
        added = mlp.mlp_output.save()
    seen = hooked(large.raw, large.inputs, f"{native}.router", f"{native}.experts")
    probabilities, chosen_weights, chosen = seen[f"{native}.router"][2]
    assert torch.equal(scores.flatten(0, 1).softmax(-1), probabilities)
    assert torch.equal(indices.flatten(0, 1), chosen)
    assert torch.equal(weights.flatten(0, 1), chosen_weights)
    assert (scores.shape[-1], indices.shape[-1]) == (mlp.axis_size("experts"), mlp.axis_size("routed")) == (6, 2)
    tokens, experts = seen[f"{native}.experts"][0][0], block.experts
    gate, up = (experts.gate_up_proj[chosen] @ tokens[:, None, :, None])[..., 0].chunk(2, dim=-1)
    by_hand = (experts.down_proj[chosen] @ (experts.act_fn(gate) * up)[..., None])[..., 0]
    torch.testing.assert_close(outputs.flatten(0, 1), by_hand, atol=1e-4, rtol=1e-4)
    total = normed(block, 1, dense) + normed(block, 2, (weights[..., None] * outputs).sum(-2))
    torch.testing.assert_close(block.post_feedforward_layernorm(total), added, atol=1e-4, rtol=1e-4)


def test_written_scores_send_tokens_to_other_experts(large):
    mlp = large.model.layers[1].mlp
    with large.model.trace(**large.inputs):
        mlp.router_logits[..., 3] = 100.0
        indices = mlp.expert_indices.save()
    assert (indices == 3).any(-1).all()


@pytest.mark.parametrize("name", ["gemma4", "gemma4_unified"])
def test_pictures_of_any_size_have_their_places_in_the_encoding(name):
    with pytest.raises(Unavailable, match="is in the encoding, image_position_ids"):
        _built[name, "sdpa"].model.vision.image_size  # noqa: B018


@pytest.mark.parametrize("size", ["num_heads", "head_dim", "intermediate_size"])
def test_where_no_block_attends_there_are_no_heads(size):
    vision = _built["gemma4_unified", "sdpa"].model.vision
    assert (vision.num_layers, vision.vision_hidden_size, vision.patch_size) == (0, 24, 8)
    with pytest.raises(Unavailable, match="read patch_embeddings and tower_output"):
        getattr(vision, size)


def test_the_late_blocks_of_a_generation_see_the_prompts_last_position_alone(gemma):
    lengths = []
    with gemma.model.generate(**gemma.row.solo(1), max_new_tokens=2, do_sample=False):
        for block in gemma.model.layers:
            lengths.append(block.layer_input.shape[1])
    assert lengths == [12, 12, 1, 1]
