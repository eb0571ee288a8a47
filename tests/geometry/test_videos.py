"""What becomes of a video's frames, against the video processor itself."""

import numpy as np
import pytest
import transformers
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from belvedere.errors import InputError
from belvedere.geometry import pieces
from belvedere.testing import processors

PACKED = {"patch_size": 8, "size": {"shortest_edge": 512, "longest_edge": 16384}}
CAPPED = {"cap_pixels_per_frame": True, "max_video_tokens": 12}
UNCAPPED = {"cap_pixels_per_frame": False}
SQUARE = {"height": 32, "width": 24}
CASES = {
    "qwen2": ("Qwen2VLVideoProcessor", PACKED, UNCAPPED),
    "qwen2, capped": ("Qwen2VLVideoProcessor", {**PACKED, **CAPPED}, {}),
    "qwen3": ("Qwen3VLVideoProcessor", PACKED, UNCAPPED),
    "qwen3, capped": ("Qwen3VLVideoProcessor", {**PACKED, **CAPPED}, {}),
    "glm4v": ("Glm4vVideoProcessor", PACKED, {}),
    "glm46v": ("Glm46VVideoProcessor", PACKED, {}),
    "glmga": ("GlmgaVideoProcessor", {**PACKED, "patch_expand_factor": 2}, {}),
    "internvl": ("InternVLVideoProcessor", {"size": SQUARE}, {}),
    "llava_onevision": ("LlavaOnevisionVideoProcessor", {"size": SQUARE}, {}),
    "llava_next_video": (
        "LlavaNextVideoVideoProcessor",
        {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}},
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(size=st.tuples(st.integers(1, 150), st.integers(1, 150)), frames=st.integers(2, 7))
def test_a_frame_is_as_large_as_the_processor_makes_it(name, size, frames):
    kind, given_settings, call = CASES[name]
    processor = getattr(transformers, kind)(**given_settings)
    video = np.zeros((frames, size[1], size[0], 3), dtype=np.uint8)
    try:
        encoded = processor(
            [video], return_tensors="pt", do_sample_frames=False, input_data_format="channels_last", **call
        )
    except ValueError:
        assume(False)
    if "video_grid_thw" in encoded:
        _, rows, columns = encoded["video_grid_thw"][0].tolist()
        real = (columns * 8, rows * 8)
    else:
        real = tuple(encoded["pixel_values_videos"].shape[:-3:-1])
    [piece] = pieces(processor, size, frames=frames, **call)
    assert piece.size == real


def test_a_whole_processor_knows_its_own_for_videos():
    whole = processors.qwen("Qwen3VLProcessor")
    [frame] = pieces(whole, (80, 80), frames=6)
    assert frame == pieces(whole.video_processor, (80, 80), frames=6)[0]
    assert frame.size != pieces(whole, (80, 80))[0].size


def test_a_video_of_too_few_frames_is_refused():
    with pytest.raises(InputError, match="Qwen3VLVideoProcessor takes no video of 1 frames; pass at least 2"):
        pieces(processors.qwen("Qwen3VLProcessor"), (80, 80), frames=1)
