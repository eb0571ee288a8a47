"""Boxes in the original picture, against boxes computed by hand."""

import pytest
import torch

from belvedere import geometry


def test_cells_are_counted_row_by_row():
    boxes = geometry.cell_boxes(2, 3, (30, 10))
    expected = [[0, 0, 10, 5], [10, 0, 20, 5], [20, 0, 30, 5], [0, 5, 10, 10], [10, 5, 20, 10], [20, 5, 30, 10]]
    assert boxes.tolist() == expected


def test_packed_patches_stand_in_merge_block_order_over_the_original_picture():
    boxes = geometry.packed_patch_boxes((80, 40), (1, 4, 4), 2)
    assert boxes[:5].tolist() == [[0, 0, 20, 10], [20, 0, 40, 10], [0, 10, 20, 20], [20, 10, 40, 20], [40, 0, 60, 10]]


def test_a_merged_token_covers_the_patches_of_its_fold():
    boxes = geometry.packed_token_boxes((40, 40), (1, 4, 4), 2)
    assert boxes.tolist() == [[0, 0, 20, 20], [20, 0, 40, 20], [0, 20, 20, 40], [20, 20, 40, 40]]


def test_every_frame_has_the_same_boxes():
    boxes = geometry.packed_patch_boxes((40, 40), (2, 2, 2), 2)
    assert boxes.shape == (8, 4)
    assert torch.equal(boxes[:4], boxes[4:])
    assert geometry.packed_token_boxes((40, 40), (2, 2, 2), 2).tolist() == [[0, 0, 40, 40]] * 2


def test_a_wide_picture_loses_its_sides_to_a_centre_crop():
    view = geometry.cropped((640, 320), 336, (336, 336))
    assert view.offset == (168, 0)
    boxes = geometry.fixed_patch_boxes(view, 14)
    assert boxes.shape == (576, 4)
    torch.testing.assert_close(boxes[0], torch.tensor([160, 0, 160 + 40 / 3, 40 / 3], dtype=torch.float64))
    torch.testing.assert_close(boxes[575], torch.tensor([480 - 40 / 3, 320 - 40 / 3, 480, 320], dtype=torch.float64))


def test_a_crop_larger_than_the_picture_is_padding_around_it():
    view = geometry.cropped((20, 20), 20, (32, 32))
    assert view.offset == (-6, -6)
    boxes = geometry.fixed_patch_boxes(view, 16)
    assert boxes.tolist() == [[-6, -6, 10, 10], [10, -6, 26, 10], [-6, 10, 10, 26], [10, 10, 26, 26]]


def test_a_stretched_picture_keeps_all_of_itself():
    boxes = geometry.fixed_patch_boxes(geometry.stretched((100, 50), (32, 32)), 16)
    assert boxes.tolist() == [[0, 0, 50, 25], [50, 0, 100, 25], [0, 25, 50, 50], [50, 25, 100, 50]]


@pytest.mark.parametrize("size", [(97, 64), (64, 97), (64, 64), (131, 77)])
def test_a_dot_is_found_in_the_patch_that_its_box_says(size):
    from PIL import Image
    from transformers import CLIPImageProcessor

    processor = CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, do_normalize=False, do_rescale=False
    )
    boxes = geometry.fixed_patch_boxes(geometry.cropped(size, 32, (32, 32)), 8)
    for number in (0, 6, 15):
        left, top, right, bottom = boxes[number].tolist()
        image = Image.new("RGB", size)
        middle = round((left + right) / 2), round((top + bottom) / 2)
        image.paste((255, 255, 255), (middle[0] - 2, middle[1] - 2, middle[0] + 3, middle[1] + 3))
        seen = processor(image, return_tensors="pt")["pixel_values"][0, 0]
        light = seen.unfold(0, 8, 8).unfold(1, 8, 8).sum((-1, -2)).flatten()
        assert int(light.argmax()) == number


def test_overlap_shares_area_and_not_a_border():
    boxes = geometry.cell_boxes(2, 2, (20, 20))
    assert geometry.boxes_over(boxes, (10, 0, 20, 10)).tolist() == [False, True, False, False]
    assert geometry.boxes_over(boxes, (9, 9, 11, 11)).tolist() == [True] * 4
