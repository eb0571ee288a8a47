"""What Gemma 4 alone claims: the scatters of three kinds of input, inputs of a block's own, blocks that others need."""

import pytest
import torch
from conftest import _built
from transformers import Gemma4AudioConfig
from truth import hooked, input_of

from belvedere import StandardizedTransformer, WriteError
from belvedere.testing import ROWS
from belvedere.testing.weights import randomize


@pytest.fixture
def gemma():
    return _built["gemma4", "sdpa"]


@pytest.fixture(scope="module")
def hearing():
    """The same with an audio tower beside the other one."""
    from transformers import AutoModelForImageTextToText

    config = ROWS["gemma4"].config()
    config.audio_config = Gemma4AudioConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        output_proj_dims=20,
        subsampling_conv_channels=[8, 4],
    )
    return [
        module(randomize(AutoModelForImageTextToText.from_config(config)))
        for module in (StandardizedTransformer, lambda held: held)
    ]


def with_everything() -> dict[str, torch.Tensor]:
    """One prompt with a sound of four tokens, two pictures and a video of two frames, in this order."""
    shown = ROWS["gemma4"].solo(0)
    made = torch.Generator().manual_seed(1)
    # The frames are two more pictures, under the video's placeholders.
    frames, tokens = slice(0, 2), [*[6] * 6, 12, *[6] * 3]
    ids = torch.cat([torch.tensor([[9, 7, 7, 7, 7]]), shown["input_ids"], torch.tensor([tokens])], dim=1)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": shown["pixel_values"],
        "image_position_ids": shown["image_position_ids"],
        "pixel_values_videos": shown["pixel_values"][frames] * 0.5,
        "video_position_ids": shown["image_position_ids"][frames],
        "num_frames_per_video": torch.tensor([2]),
        "input_features": torch.randn(1, 16, 8, generator=made),
        "input_features_mask": torch.ones(1, 16, dtype=torch.bool),
    }


def test_pictures_video_and_sound_each_stand_at_their_own_placeholders(hearing):
    (model, raw), inputs = hearing, with_everything()
    with model.trace(**inputs):
        images = model.vision.image_token_mask.save()
        videos = model.vision.video_token_mask.save()
        features = model.vision.image_features.save()
        frames = model.vision.video_features.save()
    seen = hooked(raw, inputs, "model.language_model.layers.0", "model.embed_audio")
    entering = seen["model.language_model.layers.0"][0][0]
    assert (images.sum(), videos.sum()) == (9, 9)
    assert torch.equal(entering[images], features)
    assert torch.equal(entering[videos], frames)
    assert torch.equal(entering[inputs["input_ids"] == 7], seen["model.embed_audio"][2][0])


def test_an_input_of_a_blocks_own_is_what_a_hook_sees(gemma):
    native = f"{gemma.row.blocks}.1"
    with gemma.model.trace(**gemma.inputs):
        own = gemma.model.layers[1].per_layer_input.save()
    assert torch.equal(own, hooked(gemma.raw, gemma.inputs, native)[native][0][1])


def test_a_block_that_others_attend_to_is_not_skipped(gemma):
    with pytest.raises(WriteError, match=r"layers\[1\] cannot be skipped: blocks 3 attend to its keys and values"):
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
