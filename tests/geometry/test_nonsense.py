"""Numbers that mean nothing are refused, and not computed with."""

import pytest
import torch

from belvedere import geometry


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: geometry.vision_position_ids([(1, 4, 4)], -1), "a fold of -1 patches a side is none"),
        (lambda: geometry.vision_position_ids([(1, 4, 4)], 0), "a fold of 0 patches a side is none"),
        (lambda: geometry.vision_position_ids(torch.tensor([[1, 4.5, 4.0]]), 2), "whole numbers"),
        (lambda: geometry.window_order(4, 4, 2, -4), "holds no fold"),
        (lambda: geometry.window_order(4, 4, 0, 4), "a fold of 0 patches a side is none"),
        (lambda: geometry.vision_interpolation([(1, 4, 4)], 0, 2), "a table of 0 entries"),
        (lambda: geometry.Resampling(taps=3), "taps=3 is none of 2, 4"),
        (lambda: geometry.MRope(video="foo"), "video='foo' is none of 'whole', 'frames'"),
    ],
)
def test_it_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
