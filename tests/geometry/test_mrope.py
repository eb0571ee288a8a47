"""The three positions of a prompt's tokens, against transformers' own `get_rope_index`."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import nnsight  # noqa: F401
import pytest
import torch
from geometry.packs import BEGIN, EXAMPLES, IMAGE, TEXT, VIDEO, prompts
from hypothesis import assume, given
from hypothesis import strategies as st
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


def theirs(model, prompt, rate=4, **given):
    """What a model of transformers makes of a prompt, without building the model."""
    vision = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=rate, temporal_merge_size=2)
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
@given(prompts(), st.sampled_from([2, 3, 4, 25]))
def test_qwen2_5_vl_counts_the_seconds_of_a_video(prompt, rate):
    convention = replace(geometry.QWEN2_VL, tokens_per_second=rate)
    check(ours(prompt, convention), theirs(Qwen2_5_VLModel, prompt, rate))
    for seconds in (prompt.seconds, torch.tensor(prompt.seconds)):
        expected = theirs(Qwen2_5_VLModel, prompt, rate, second_per_grid_ts=seconds)
        check(ours(prompt, convention, second_per_grid_ts=seconds), expected)


@EXAMPLES
@given(st.sampled_from([Qwen3_5Model, Qwen3VLModel, Glm4vModel]), prompts(frames_apart=True))
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


def split(row, share):
    """A row cut in two near a share of it, and never within a picture."""
    cut = max(1, round(share * (len(row) - 1)))
    while row[cut] in (IMAGE, VIDEO) and row[cut - 1] == row[cut]:
        cut += 1
    return row[:cut], row[cut:]


def runs(row, kind):
    """How many runs of placeholders a row has."""
    return sum(token == kind != before for before, token in zip([TEXT, *row], row, strict=False))


@EXAMPLES
@given(prompt=prompts(rows=1, frames_apart=True), share=st.floats(0, 1))
def test_a_prompt_whose_beginning_is_cached_goes_on_where_that_ended(prompt, share):
    row = prompt.rows[0]
    assume(len(row) > 1)
    expected, delta = theirs(Qwen3_5Model, prompt)
    following, _ = theirs(Qwen3_5Model, replace(prompt, rows=[[*row, TEXT]]))
    frames = [(1, *sides) for count, *sides in prompt.videos for _ in range(count)]
    begin, end = split(row, share)
    images, clips = runs(begin, IMAGE), runs(begin, VIDEO)
    go = partial(positions, convention=geometry.QWEN3_VL)
    first, before = go(torch.tensor([begin]), prompt.images[:images], frames[:clips])
    then, after = go(
        torch.tensor([end]), prompt.images[images:], frames[clips:], start_pos=len(begin), start_delta=before
    )
    assert torch.equal(torch.cat([first, then], dim=2), expected)
    assert torch.equal(after, delta)
    # With the token that comes next the length is one more, so it is at `length - 1 + delta`.
    assert following[:, 0, -1].tolist() == [len(row) + int(after)] * 3


def test_rows_may_have_cached_beginnings_of_different_length():
    ids = torch.tensor([[0, TEXT, TEXT], [IMAGE, TEXT, TEXT]])
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    found, delta = positions(
        ids, [(1, 2, 2)], convention=geometry.QWEN3_VL, attention_mask=mask, start_pos=[4, 9], start_delta=[0, -3]
    )
    assert found[0].tolist() == [[0, 4, 5], [6, 7, 8]]
    assert delta.tolist() == [[0], [-3]]


def test_behind_a_long_video_the_conventions_part():
    # Five frames of two by two image tokens between two words.
    ids = torch.tensor([[TEXT, *[VIDEO] * 20, TEXT]])
    go = partial(positions, ids, (), [(5, 4, 4)])
    paper, delta = go(convention=geometry.QWEN2_VL_PAPER)
    assert paper[0].tolist() == [[0, *[time for time in (1, 2, 3, 4, 5) for _ in range(4)], 6]]
    assert paper[1].tolist() == [[0, *[1, 1, 2, 2] * 5, 6]]
    assert paper[2].tolist() == [[0, *[1, 2, 1, 2] * 5, 6]]
    assert delta.tolist() == [[7 - 22]]
    side, delta = go(convention=geometry.QWEN2_VL)
    assert side[:, 0, -1].tolist() == [3, 3, 3]
    assert delta.tolist() == [[6 - 22]]


@EXAMPLES
@given(prompts())
def test_for_pictures_alone_the_conventions_agree(prompt):
    still = replace(prompt, rows=[[token for token in row if token != VIDEO] for row in prompt.rows], videos=[])
    still.masked = True
    expected = theirs(Qwen2VLModel, still)
    for convention in (geometry.QWEN2_VL, geometry.QWEN2_VL_PAPER, geometry.QWEN3_VL):
        check(ours(still, convention), expected)


def test_pictures_that_touch_are_told_apart_by_their_sizes():
    ids = torch.tensor([[TEXT, IMAGE, IMAGE, IMAGE, TEXT]])
    found, delta = positions(ids, [(1, 2, 4), (1, 2, 2)], convention=geometry.QWEN3_VL)
    assert found[:, 0].tolist() == [[0, 1, 1, 3, 4], [0, 1, 1, 3, 4], [0, 1, 2, 3, 4]]
    assert delta.tolist() == [[0]]


def test_text_alone_counts_its_tokens():
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
    found, delta = positions(torch.ones(3, 4).long(), convention=geometry.QWEN3_VL, attention_mask=mask)
    assert found.tolist() == [[[0, 0, 0, 1], [0, 1, 2, 0], [0, 0, 0, 0]]] * 3
    assert delta.tolist() == [[0], [0], [0]]


def test_a_video_written_with_the_image_s_token_is_told_apart_beforehand():
    ids, types = torch.tensor([[IMAGE, TEXT, IMAGE, TEXT, IMAGE]]), torch.tensor([[1, 0, 2, 0, 2]])
    found, _ = positions(ids.masked_fill(types == 2, VIDEO), [(1, 2, 2)], [(2, 2, 2)], convention=geometry.QWEN3_VL)
    assert found.tolist() == [[[0, 1, 2, 3, 4]]] * 3


def test_the_default_device_does_not_matter():
    ids = torch.tensor([[TEXT, IMAGE, VIDEO]])
    with torch.device("meta"):
        found, delta = positions(
            ids, [(1, 2, 2)], [(1, 2, 2)], convention=geometry.QWEN2_VL, second_per_grid_ts=[0.5], start_pos=3
        )
    assert found[0].tolist() == [[3, 4, 5]]
    assert delta.tolist() == [[0]]


def test_positions_have_the_type_of_the_ids():
    found, _ = positions(torch.ones(1, 4, dtype=torch.int32), convention=geometry.QWEN3_VL)
    assert found.dtype == torch.int32


def test_grids_and_placeholders_must_agree():
    ids = torch.tensor([[TEXT, IMAGE, IMAGE, TEXT]])
    with pytest.raises(ValueError, match="there are 2 image placeholders, and the image grids make 4"):
        positions(ids, [(1, 4, 4)], convention=geometry.QWEN3_VL)
    with pytest.raises(ValueError, match="there are 0 video placeholders, and the video grids make 1"):
        positions(ids, [(1, 2, 4)], [(1, 2, 2)], convention=geometry.QWEN3_VL)


def test_a_picture_that_text_interrupts_is_refused():
    ids = torch.tensor([[VIDEO, TEXT, VIDEO, TEXT]])
    with pytest.raises(ValueError, match="the placeholders of video 0 are no single run; see the convention's video"):
        positions(ids, (), [(2, 2, 2)], convention=geometry.QWEN2_VL)
    found, _ = positions(ids, (), [(2, 2, 2)], convention=geometry.QWEN3_VL)
    assert found[0].tolist() == [[0, 1, 2, 3]]
    rows = torch.tensor([[IMAGE, TEXT, IMAGE], [IMAGE, TEXT, TEXT]])
    with pytest.raises(ValueError, match="the placeholders of image 1 are no single run"):
        positions(rows, [(1, 2, 2), (1, 2, 4)], convention=geometry.QWEN3_VL)


def test_ids_and_mask_have_one_shape():
    for ids, mask in ((torch.ones(3), None), (torch.ones(1, 3), torch.ones(1, 4))):
        with pytest.raises(ValueError, match=r"both \[batch, seq\], without what is cached"):
            positions(ids, convention=geometry.QWEN3_VL, attention_mask=mask)


def test_each_video_has_its_seconds():
    ids = torch.tensor([[VIDEO]])
    with pytest.raises(ValueError, match="1 videos have 2 second_per_grid_ts; pass one for each"):
        positions(ids, (), [(1, 2, 2)], convention=geometry.QWEN2_VL, second_per_grid_ts=[1.0, 2.0])
