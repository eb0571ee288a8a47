"""What a staged tower is given: an encoding, pixels and grid, whole pictures; or a refusal that says what to pass."""

import pytest
import torch
from conftest import _built
from staging import WRAPPERS, features_of

from belvedere import InputError
from belvedere.testing import ROWS, tiny

SHOWN = [name for name in WRAPPERS if ROWS[name].processor is not None]
#: What an encoding calls the sizes of its pictures.
GRIDS = ("image_grid_thw", "image_sizes", "spatial_shapes", "image_position_ids", "aspect_ratio_ids")
BESIDE = ("pixel_attention_mask", "aspect_ratio_mask", "batch_num_images")


@pytest.fixture(params=WRAPPERS)
def staging(request):
    return _built[request.param, "sdpa"]


@pytest.fixture(params=SHOWN, scope="module")
def shown(request):
    return tiny(request.param)


def test_an_encoding_is_taken_whole_and_its_text_left_out(staging):
    staged = staging.model.vision.staged
    expected = features_of(staging.raw, staging)
    assert torch.equal(staged.forward(staging.inputs), expected)
    state = staged.embed(staging.inputs)
    assert not state.source.keys() & {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"}


def test_pixels_and_their_grid_are_taken_by_position(staging):
    inputs = staging.inputs
    grid = next((inputs[name] for name in GRIDS if name in inputs), None)
    beside = {name: inputs[name] for name in BESIDE if name in inputs}
    features = staging.model.vision.staged.forward(inputs["pixel_values"], grid, **beside)
    assert torch.equal(features, features_of(staging.raw, staging))


def test_a_grid_may_be_a_list(qwen):
    inputs = qwen.inputs
    features = qwen.model.vision.staged.forward(inputs["pixel_values"], inputs["image_grid_thw"].tolist())
    assert torch.equal(features, features_of(qwen.raw, qwen))


def test_pictures_are_shown_through_the_models_own_processor(shown):
    model = shown.model
    features = model.vision.staged.forward(shown.images)
    with model.trace(shown.prompt, images=shown.images):
        written = model.vision.image_features.save()
    assert torch.equal(features, written.flatten(0, -2))


def test_one_picture_needs_no_list_and_may_be_a_file(tmp_path):
    small = tiny("qwen3_5")
    staged = small.model.vision.staged
    small.images[0].save(tmp_path / "picture.png")
    alone = staged.forward(small.images[:1])
    assert torch.equal(staged.forward(small.images[0]), alone)
    assert torch.equal(staged.forward(tmp_path / "picture.png"), alone)
    with pytest.raises(InputError, match=r"picture 0 .* cannot be read"):
        staged.forward("a prompt")


@pytest.mark.parametrize("name", ["qwen3_5", "qwen2_5_vl", "qwen2_vl", "glm4v", "kimi_k25"])
def test_whole_pixels_are_cut_as_the_processor_cuts_them(name):
    small = tiny(name)
    staged, images = small.model.vision.staged, small.processor.image_processor
    made = torch.Generator().manual_seed(0)
    pixels = torch.rand(2, 3, 32, 48, generator=made)
    plain = {"do_resize": False, "do_rescale": False, "do_normalize": False, "return_tensors": "pt"}
    expected = images(images=list(pixels), **plain)
    state = staged.embed(pixels)
    grid = next(held for key, held in expected.items() if "grid" in key)
    assert torch.equal(state.source["image_grid_thw"], grid)
    assert torch.equal(state.source["pixel_values"], expected["pixel_values"])


def test_pixels_of_a_size_that_cannot_be_cut_are_refused(qwen):
    with pytest.raises(InputError, match="30 x 32 pixels cannot be cut into image tokens of 16 x 16; resize"):
        qwen.model.vision.staged.embed(torch.zeros(1, 3, 30, 32))


def test_a_tower_that_needs_more_says_what(qwen):
    with pytest.raises(InputError, match=r"needs image_grid_thw beside pixel_values; pass them by name"):
        qwen.model.vision.staged.embed(qwen.inputs["pixel_values"])
    lfm2 = _built["lfm2_vl", "sdpa"]
    with pytest.raises(InputError, match=r"needs pixel_attention_mask beside pixel_values, spatial_shapes"):
        lfm2.model.vision.staged.embed(lfm2.inputs["pixel_values"], lfm2.inputs["spatial_shapes"])
    mllama = _built["mllama", "sdpa"]
    with pytest.raises(InputError, match=r"needs aspect_ratio_ids, aspect_ratio_mask beside pixel_values"):
        mllama.model.vision.staged.embed(mllama.inputs["pixel_values"])


def test_a_grid_for_a_tower_of_one_size_is_refused():
    gemma = _built["gemma3", "sdpa"]
    with pytest.raises(InputError, match="takes pictures of one size, and no grid"):
        gemma.model.vision.staged.embed(gemma.inputs["pixel_values"], [[1, 4, 4]])


def test_pictures_without_a_processor_are_refused(llava):
    with pytest.raises(InputError, match=r"without a processor.*pass `processor=`"):
        llava.model.vision.staged.embed(tiny("llava").images)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "nothing to embed; pass pixel values"),
        (({"input_ids": torch.zeros(1, 4).long()},), "nothing to embed"),
        (([],), "the list of pictures is empty"),
    ],
    ids=["nothing", "text", "empty"],
)
def test_what_no_tower_takes_is_refused(llava, given, said):
    with pytest.raises(InputError, match=said):
        llava.model.vision.staged.embed(*given)


def test_pixels_that_come_twice_are_refused(llava):
    with pytest.raises(InputError, match="both by position and as `pixel_values=`"):
        llava.model.vision.staged.embed(llava.inputs["pixel_values"], pixel_values=llava.inputs["pixel_values"])


def test_a_video_is_staged_as_the_model_takes_it(filmed):
    if filmed.row.blockless:
        # `test_staged` shows that this row is the only one without a staged tower.
        return
    encoding, staged = filmed.row.video(), filmed.model.vision.staged
    if encoding["pixel_values_videos"].ndim == 5:
        with pytest.raises(InputError, match="what becomes of a video is not this wrapper's method alone"):
            staged.forward(encoding)
        return
    features = staged.forward(encoding)
    with filmed.model.trace(**encoding):
        frames = filmed.model.vision.layers[1].layer_output.save()
        written = filmed.model.vision.video_features.save()
    assert torch.equal(features, written)
    assert torch.equal(staged.encode(staged.embed(encoding), stop=2).hidden, frames)


def test_a_video_of_padded_frames_is_staged_as_the_model_takes_it():
    checkpoint = _built["gemma4", "sdpa"]
    inputs = checkpoint.inputs
    video = {
        "pixel_values_videos": inputs["pixel_values"] * 0.5,
        "video_position_ids": inputs["image_position_ids"],
        "num_frames_per_video": torch.tensor([2, 1]),
    }
    expected = checkpoint.raw.model.get_video_features(**video, return_dict=True).pooler_output
    assert torch.equal(checkpoint.model.vision.staged.forward(**video), torch.cat(list(expected)))


def test_pictures_and_a_video_together_are_refused(qwen):
    encoding = {**ROWS["qwen3_5"].video(), **qwen.inputs}
    with pytest.raises(InputError, match="shows pictures and a video; leave out `pixel_values` or"):
        qwen.model.vision.staged.embed(encoding)


def test_a_video_that_is_more_than_its_method_is_refused():
    model = _built["llava_onevision", "sdpa"].model
    with pytest.raises(InputError, match="embed its frames as pictures"):
        model.vision.staged.embed(pixel_values_videos=torch.zeros(1, 2, 3, 32, 32))


def test_pixels_that_are_not_normalised_are_refused(llava):
    with pytest.raises(InputError, match=r"the pixel values are of torch\.uint8"):
        llava.model.vision.staged.embed(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))


def test_pictures_with_a_grid_are_refused(llava):
    with pytest.raises(InputError, match="pass `grid` with pixel values only"):
        llava.model.vision.staged.embed(["picture.png"], torch.tensor([[1, 4, 4]]))


def test_a_stream_that_is_no_tensor_of_numbers_is_refused(llava):
    state = llava.model.vision.staged.embed(**llava.inputs)
    with pytest.raises(InputError, match=r"the new stream is of torch\.int64"):
        state.replace(hidden=torch.zeros(state.hidden.shape, dtype=torch.int64))
    with pytest.raises(InputError, match="the new stream is a ndarray"):
        state.replace(hidden=state.hidden.numpy())


def test_other_pictures_than_the_states_are_refused(qwen):
    staged = qwen.model.vision.staged
    state = staged.encode(staged.embed(**qwen.inputs))
    with staged.answered(state), pytest.raises(InputError, match="show it the pictures that the state was made of"):
        qwen.model._module(**qwen.row.solo(1))
    with staged.answered(state):
        answered = qwen.model._module(**qwen.inputs).logits
    assert torch.equal(answered, qwen.logits)


def test_a_file_that_is_no_state_is_refused(tmp_path):
    from belvedere.staged import State

    (tmp_path / "picture.png").write_bytes(b"no state at all")
    with pytest.raises(InputError, match="is no safetensors file"):
        State.load(tmp_path / "picture.png")


def test_a_state_of_a_tower_of_other_length_is_refused(llava):
    from dataclasses import replace

    staged = llava.model.vision.staged
    state = staged.embed(**llava.inputs)
    other = replace(state, calls=state.calls[:-1])
    for run in (staged.encode, staged.merge):
        with pytest.raises(InputError, match="the state is of a tower of 2 blocks, and this one has 3"):
            run(other)
