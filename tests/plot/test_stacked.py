"""Boxes that lie over each other are drawn apart, and those that are shared once."""

import torch
from PIL import Image
from written import check

from belvedere import geometry, plot
from belvedere.plot.stacked import sheaves

SIZE = (60, 40)
TILES, WHOLE = geometry.cell_boxes(4, 6, SIZE), geometry.cell_boxes(2, 3, SIZE)


def panels(figure):
    filled = [axes for axes in figure.axes if axes.collections and axes.get_title()]
    return [(axes.get_title().splitlines()[0], axes.collections[0]) for axes in filled]


def test_a_thumbnail_ahead_of_its_tiles_or_behind_them_is_apart():
    for boxes, first in ((torch.cat([WHOLE, TILES]), 6), (torch.cat([TILES, WHOLE]), 0)):
        fine, whole = sheaves(boxes)
        assert (fine.name, whole.name) == ("", "thumbnail")
        assert fine.members.tolist() == list(range(first, first + 24))
        assert torch.equal(fine.boxes, TILES)
        assert torch.equal(whole.boxes, WHOLE)


def test_boxes_side_by_side_keep_their_order():
    order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    (one,) = sheaves(TILES[order])
    assert torch.equal(one.boxes, TILES[order])
    assert not one.shared


def test_values_that_share_a_box_are_drawn_as_their_mean_and_the_surest_word():
    boxes = TILES[:2].repeat_interleave(3, 0)
    values = torch.tensor([[1.0, 2.0, 6.0, 0.0, 0.5, -0.5]])
    image = Image.new("RGB", SIZE)
    figure = plot.strips(values, boxes, image, titles=["a"], heading="h", unit="u")
    ((_, cells),) = panels(figure)
    assert cells.get_array().tolist() == [3.0, 0.0]
    assert "the mean of all that share a box" in figure._suptitle.get_text()
    texts = [["one", "two", "three", "four", "five", "six"]]
    figure = plot.words(texts, values.clamp_min(0), boxes, image, titles=["a"], heading="h", unit="u")
    assert [text.get_text() for text in figure.axes[1].texts] == ["three", "five"]


def test_what_is_written_over_tiles_and_thumbnail_can_be_read():
    boxes = torch.cat([TILES, WHOLE])
    look = {"titles": ["block 1", "block 2"], "heading": "patching of layers.layer_output", "unit": "restored"}
    values = torch.randn(2, 30)
    figure = plot.strips(values, boxes, Image.new("RGB", SIZE), **look)
    check(figure)
    titles = ["block 1", "block 1, thumbnail", "block 2", "block 2, thumbnail"]
    assert [title for title, _ in panels(figure)] == titles
    assert panels(figure)[3][1].get_array().tolist() == values[1, 24:].tolist()


def test_what_is_all_padding_has_no_width_and_is_drawn_all_the_same():
    boxes = torch.cat([TILES, torch.tensor([[60.0, 0.0, 60.0, 10.0]], dtype=TILES.dtype)])
    figure = plot.words([["word"] * 25], torch.rand(1, 25), boxes, Image.new("RGB", SIZE), **{
        "titles": ["a"], "heading": "h", "unit": "u"
    })  # fmt: skip
    check(figure)
