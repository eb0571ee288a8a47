"""Boxes in a video's own pixels, of as many frames as fill patches and of one less."""

import numpy as np
import pytest
import torch

from belvedere import InputError
from belvedere.testing import tiny

NAMES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v", "glm46v"]


@pytest.mark.parametrize("frames", [8, 7])
@pytest.mark.parametrize("name", NAMES)
def test_the_boxes_of_each_frame_tile_it(name, frames):
    model = tiny(name).model
    size = (100, 40)
    video = np.zeros((frames, size[1], size[0], 3), dtype=np.uint8)
    encoded = model.processor.video_processor([video], return_tensors="pt", do_sample_frames=False)
    times, rows, columns = encoded["video_grid_thw"][0].tolist()
    tokens = times * rows * columns // model.vision.spatial_merge_size**2
    ids = torch.full((1, tokens), model.placeholder("video"))
    layout = model.video_layout({**encoded, "input_ids": ids}, sizes=[size])
    assert layout.unsourced is None
    for frame in range(times):
        boxes = layout.patches.source_box[layout.patches.frame.eq(frame)]
        assert len(boxes) == rows * columns
        cell = torch.tensor([size[0] / columns, size[1] / rows], dtype=torch.float64)
        torch.testing.assert_close(boxes[:, 2:] - boxes[:, :2], cell.expand(len(boxes), 2))
        torch.testing.assert_close(boxes.amax(0)[2:], torch.tensor(size, dtype=torch.float64))
    with pytest.raises(InputError, match="pass the size of the encoded"):
        model.video_layout({**encoded, "input_ids": ids}, sizes=[(40, 100)])
