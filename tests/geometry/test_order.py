"""The row order of a merging tower, against orders written down by hand."""

import pytest
import torch

from belvedere import geometry


def test_a_four_by_four_grid_in_merge_block_order():
    expected = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert geometry.merge_block_order(4, 4, 2).tolist() == expected


def test_a_grid_that_is_no_square():
    assert geometry.merge_block_order(2, 6, 2).tolist() == [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]
    assert geometry.merge_block_order(4, 2, 2).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_without_a_merge_the_order_is_the_pictures_own():
    assert geometry.merge_block_order(3, 5, 1).tolist() == list(range(15))


def test_a_window_s_folds_stand_together_and_the_last_windows_are_smaller():
    # Six by six patches in folds of two, windows of four: 4x4, 4x2, 2x4 and 2x2 patches.
    expected = [0, 1, 6, 7, 2, 3, 8, 9, 12, 13, 18, 19, 14, 15, 20, 21]
    expected += [4, 5, 10, 11, 16, 17, 22, 23]
    expected += [24, 25, 30, 31, 26, 27, 32, 33]
    expected += [28, 29, 34, 35]
    assert geometry.window_order(6, 6, 2, 4).tolist() == expected
    assert geometry.window_order(6, 6, 2, 5).tolist() == expected


def test_a_frame_no_larger_than_a_window_is_in_merge_block_order():
    for window in (6, 8, 100):
        assert torch.equal(geometry.window_order(4, 6, 2, window), geometry.merge_block_order(4, 6, 2))


def test_windows_without_a_merge_are_blocks_of_patches():
    assert torch.equal(geometry.window_order(4, 6, 1, 2), geometry.merge_block_order(4, 6, 2))


def test_a_window_smaller_than_a_fold_is_refused():
    with pytest.raises(ValueError, match="a window of 1 patches a side holds no fold of 2 by 2"):
        geometry.window_order(4, 4, 2, 1)


@pytest.mark.parametrize("grid", [(1, 6, 10), (1, 16, 16), (3, 18, 2), (2, 2, 34)])
def test_the_window_order_is_the_one_of_the_tower(grid):
    from transformers.vision_utils import get_vision_window_index

    frames, rows, columns = grid
    folds, _ = get_vision_window_index(torch.tensor([grid]), 2, 112, 14)
    blocks = torch.cat(
        [geometry.merge_block_order(rows, columns, 2) + frame * rows * columns for frame in range(frames)]
    )
    one = geometry.window_order(rows, columns, 2, 112 // 14)
    expected = torch.cat([one + frame * rows * columns for frame in range(frames)])
    assert torch.equal(blocks.view(-1, 4)[folds].flatten(), expected)


def test_the_inverse_puts_tower_rows_back_row_by_row():
    order = geometry.merge_block_order(4, 6, 2)
    assert order[geometry.inverse(order)].tolist() == list(range(24))
    assert geometry.inverse(torch.tensor([2, 0, 1])).tolist() == [1, 2, 0]


def test_the_order_is_the_one_of_the_processor():
    from belvedere.shapes import build

    pixels = torch.arange(4 * 6, dtype=torch.float32).repeat_interleave(8, 0).view(4, 6, 8).repeat_interleave(8, 1)
    shade = pixels.reshape(4, 8, 6, 8).permute(0, 2, 1, 3)[:, :, 0, 0]
    image = shade.repeat_interleave(8, 0).repeat_interleave(8, 1).expand(3, -1, -1)
    processor = build.processor("shapes-qwen3_5").image_processor
    encoded = processor(image, do_resize=False, do_rescale=False, do_normalize=False, return_tensors="pt")
    assert encoded["image_grid_thw"].tolist() == [[1, 4, 6]]
    seen = shade.flatten()[geometry.merge_block_order(4, 6, 2)]
    assert torch.equal(encoded["pixel_values"][:, 0], seen)


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (4, 3)])
def test_a_grid_that_cannot_be_folded_is_refused(rows, columns):
    with pytest.raises(ValueError, match=f"{rows} x {columns} patches cannot be folded 2 by 2"):
        geometry.merge_block_order(rows, columns, 2)
