"""The three positions of a prompt's tokens, against transformers' own `get_rope_index`."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import nnsight  # noqa: F401
import pytest
import torch
from geometry.packs import BEGIN, END, EXAMPLES, IMAGE, TEXT, VIDEO, prompts
from hypothesis import assume, given
from transformers.models.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe import Ernie4_5_VLMoeModel
from transformers.models.glm4v.modeling_glm4v import Glm4vModel
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniThinkerForConditionalGeneration
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5Model
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

from belvedere import geometry

MERGE = 2
positions = partial(geometry.mrope_position_ids, spatial_merge_size=MERGE, image_token_id=IMAGE, video_token_id=VIDEO)


def tensor(grids):
    return torch.tensor(grids) if grids else None


def theirs(model, prompt, **given):
    """What a model of transformers makes of a prompt, without building the model."""
    vision = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=4, temporal_merge_size=2)
    host = SimpleNamespace(
        config=SimpleNamespace(vision_config=vision),
        get_vision_position_ids=partial(model.get_vision_position_ids, None),
    )
    return model.get_rope_index(
        host,
        prompt.ids,
        prompt.types,
        image_grid_thw=tensor(prompt.images),
        video_grid_thw=tensor(prompt.videos),
        attention_mask=prompt.mask,
        **given,
    )


def ours(prompt, convention, **given):
    return positions(
        prompt.ids, prompt.images, prompt.videos, convention=convention, attention_mask=prompt.mask, **given
    )


def check(found, expected):
    for value, truth in zip(found, expected, strict=True):
        assert value.dtype == truth.dtype
        assert torch.equal(value, truth)


@EXAMPLES
@given(prompts())
def test_qwen2_vl_s_positions_are_transformers_own(prompt):
    check(ours(prompt, geometry.QWEN2_VL), theirs(Qwen2VLModel, prompt))


@EXAMPLES
@given(prompts())
def test_qwen2_5_vl_counts_the_seconds_of_a_video(prompt):
    convention = replace(geometry.QWEN2_VL, tokens_per_second=4)
    check(ours(prompt, convention), theirs(Qwen2_5_VLModel, prompt))
    for seconds in (prompt.seconds, torch.tensor(prompt.seconds)):
        expected = theirs(Qwen2_5_VLModel, prompt, second_per_grid_ts=seconds)
        check(ours(prompt, convention, second_per_grid_ts=seconds), expected)


@pytest.mark.parametrize("model", [Qwen3_5Model, Qwen3VLModel, Glm4vModel])
@EXAMPLES
@given(prompts(frames_apart=True))
def test_qwen3_s_frames_are_each_a_picture_between_timestamps(model, prompt):
    check(ours(prompt, geometry.QWEN3_VL), theirs(model, prompt))


@EXAMPLES
@given(prompts())
def test_ernie_folds_a_video_s_frames_too(prompt):
    folded = replace(prompt, videos=[(frames * 2, *sides) for frames, *sides in prompt.videos])
    check(ours(folded, replace(geometry.QWEN2_VL, temporal_merge_size=2)), theirs(Ernie4_5_VLMoeModel, folded))


@EXAMPLES
@given(prompts())
def test_omni_goes_on_behind_the_largest_position(prompt):
    assume(prompt.images or prompt.videos)
    config = {"image_token_id": IMAGE, "video_token_id": VIDEO, "audio_token_id": -1, "vision_start_token_id": BEGIN}
    config |= {"audio_start_token_id": -2, "position_id_per_seconds": 25, "seconds_per_chunk": 2.0}
    model = Qwen2_5OmniThinkerForConditionalGeneration
    host = SimpleNamespace(spatial_merge_size=MERGE, config=SimpleNamespace(**config))
    host.get_llm_pos_ids_for_vision = partial(model.get_llm_pos_ids_for_vision, None)
    seconds = torch.tensor(prompt.seconds)
    expected = model.get_rope_index(
        host, prompt.ids, tensor(prompt.images), tensor(prompt.videos), prompt.mask, second_per_grids=seconds
    )
    check(ours(prompt, geometry.QWEN2_5_OMNI, second_per_grid_ts=seconds), expected)
