"""Boxes and grids of cells, against boxes computed by hand."""

from belvedere import geometry


def test_cells_are_counted_row_by_row():
    boxes = geometry.cell_boxes(2, 3, (30, 10))
    expected = [[0, 0, 10, 5], [10, 0, 20, 5], [20, 0, 30, 5], [0, 5, 10, 10], [10, 5, 20, 10], [20, 5, 30, 10]]
    assert boxes.tolist() == expected


def test_overlap_shares_area_and_not_a_border():
    boxes = geometry.cell_boxes(2, 2, (20, 20))
    assert geometry.boxes_over(boxes, (10, 0, 20, 10)).tolist() == [False, True, False, False]
    assert geometry.boxes_over(boxes, (9, 9, 11, 11)).tolist() == [True] * 4


def test_a_slice_of_cells_is_cells():
    from belvedere.testing import tiny

    small = tiny("llava")
    patches = small.model.layout(small.prompt, images=small.images).patches
    some = patches[2:5]
    assert len(some) == 3
    assert [some[number].box for number in range(3)] == [patches[number].box for number in (2, 3, 4)]
