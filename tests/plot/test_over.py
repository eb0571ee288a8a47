"""Values land on the very pixels that their patches are, by boxes that are worked out by hand."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image
from written import check as check_written

from belvedere import InputError, plot
from belvedere.testing import tiny

_held = {}
#: Pixels of the rendered figure that an edge may blur.
EDGE = 1.5


def laid(name, size=(40, 24), images=1):
    key = name, size, images
    if key not in _held:
        made = tiny(name)
        prompt = " and ".join([made.row.placeholder] * images) + " what is it ?"
        pictures = [Image.new("RGB", size, (90, 120, 160)) for _ in range(images)]
        _held[key] = made.model.layout(prompt, images=pictures), pictures
    return _held[key]


def rendered(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return torch.as_tensor(bytearray(canvas.buffer_rgba())).view(*canvas.get_width_height()[::-1], 4)[..., :3]


def inside(figure, axes, box):
    """Which of a figure's pixels are in a box of the picture that an axes shows, with its edge and without."""
    height = figure.bbox.height
    (left, low), (right, high) = axes.transData.transform([(box[0], box[3]), (box[2], box[1])])
    wide, tall = FigureCanvasAgg(figure).get_width_height()
    rows, columns = torch.arange(tall)[:, None] + 0.5, torch.arange(wide)[None] + 0.5
    within = []
    for margin in (EDGE, -EDGE):
        across = (columns > left - margin) & (columns < right + margin)
        within.append(across & (rows > height - high - margin) & (rows < height - low + margin))
    return within


def changed(layout, images, length, hot, other, panel=1, of=None):
    """Where two figures differ, of one hot value and of another, in one panel; and that figure."""
    figures = []
    for number in (hot, other):
        values = torch.zeros(length)
        values[number] = 1
        figures.append(plot.over(values, layout, images, unit="u", of=of))
    first, second = (rendered(figure) for figure in figures)
    return figures[0], figures[0].axes[panel], (first.int() - second.int()).abs().sum(-1) > 30


def check(layout, images, length, hot, other, boxes, panel=1, of=None):
    """The hot cells and no others are drawn, each over the whole of its box."""
    figure, axes, differ = changed(layout, images, length, hot, other, panel, of)
    near, sure = zip(*(inside(figure, axes, box) for box in boxes), strict=True)
    assert bool(torch.stack(sure).any(0).any())
    assert bool(differ[torch.stack(sure).any(0)].all()), "a part of a box is not coloured"
    assert not bool(differ[~torch.stack(near).any(0)].any()), "what is outside of both boxes is coloured"


def clip_box(row, column):
    """LLaVA's CLIP: the shorter side of 24 becomes 32, so 40 become 53, and of these the middle 32 are kept."""
    scale, left = (53 / 40, 32 / 24), (53 - 32) // 2
    return (
        (left + 8 * column) / scale[0],
        8 * row / scale[1],
        (left + 8 * column + 8) / scale[0],
        (8 * row + 8) / scale[1],
    )


@pytest.mark.parametrize("of", ["patches", "tokens", "sequence"])
def test_of_a_cropped_picture_the_sides_stay_blank(of):
    layout, images = laid("llava")
    start = {"patches": 1, "tokens": 0, "sequence": int(layout.positions[0, 1])}[of]
    length = len(layout.arrangements[of])
    hot, other = start + 6, start + 13  # rows 1 and 3 of 4 x 4, columns 2 and 1
    check(layout, images, length, hot, other, [clip_box(1, 2), clip_box(3, 1)], of=of)


def test_a_token_of_a_tile_lights_its_box_and_no_other_tile_s():
    # InternVL stretches 40 x 24 to two tiles side by side, of 2 x 2 tokens each, and the thumbnail comes last.
    layout, images = laid("internvl")
    assert len(layout.tokens) == 12
    box = [(10 * column, 12 * row, 10 * column + 10, 12 * row + 12) for row, column in ((1, 1), (0, 2))]
    check(layout, images, 12, 3, 4, box)
    thumbnail = [(20 * column, 12 * row, 20 * column + 20, 12 * row + 12) for row, column in ((0, 1), (1, 0))]
    check(layout, images, 12, 9, 10, thumbnail, panel=2)


def test_a_reordered_row_of_a_packed_tower_lands_where_its_patch_is():
    # Qwen2-VL: the four patches of a token are neighbours in the row, and the second picture follows the first.
    layout, images = laid("qwen2_vl", (48, 32), images=2)
    rows, columns = layout.regions[0].rows, layout.regions[0].columns
    across, down = 48 / columns, 32 / rows

    def box(number):
        fold, inner = divmod(number, 4)
        row, column = 2 * (fold // (columns // 2)) + inner // 2, 2 * (fold % (columns // 2)) + inner % 2
        return across * column, down * row, across * (column + 1), down * (row + 1)

    each = rows * columns
    assert columns > 2
    check(layout, images, 2 * each, 5, 2, [box(5), box(2)])
    check(layout, images, 2 * each, each + 6, each + 3, [box(6), box(3)], panel=3)


def test_a_window_s_rows_land_as_the_layout_of_tokens_has_them():
    # Qwen2.5-VL keeps rows by window: a row's own box is in that of the token that it goes into.
    layout, images = laid("qwen2_5_vl", (64, 48))
    for hot in (0, 9, len(layout.patches) - 1):
        other = (hot + 7) % len(layout.patches)
        boxes = [layout.patches[number].source_box for number in (hot, other)]
        check(layout, images, len(layout.patches), hot, other, boxes, of="patches")
        whole = layout.tokens[layout.token_of(hot)].source_box
        assert all(one >= two - 1e-6 for one, two in zip(boxes[0][:2], whole[:2], strict=True))


def test_the_scale_parts_at_zero_where_a_value_has_a_sign():
    layout, images = laid("llava")
    values = torch.linspace(-0.5, 0.2, 16)
    cells = plot.over(values, layout, images[0], unit="u", of="tokens").axes[1].collections[0]
    assert (cells.norm.vmin, cells.norm.vmax) == pytest.approx((-0.5, 0.5))
    cells = plot.over(values.abs(), layout, images[0], unit="u", of="tokens").axes[1].collections[0]
    assert (cells.norm.vmin, cells.norm.vmax) == pytest.approx((0, 0.5))
    cells = plot.over(values.abs(), layout, images[0], unit="u", of="tokens", signed=True).axes[1].collections[0]
    assert (cells.norm.vmin, cells.norm.vmax) == pytest.approx((-0.5, 0.5))


def test_what_is_not_drawn_is_said_and_the_unit_stands_along_the_bar():
    layout, images = laid("llava")
    figure = plot.over(torch.rand(2, 17), layout, images[0], unit="norm of it", heading="what", titles=["a", "b"])
    assert "what" in figure._suptitle.get_text()
    assert "CLS 0" in figure._suptitle.get_text()
    assert figure.axes[-1].get_ylabel() == "norm of it"
    assert [axes.get_title().splitlines()[0] for axes in figure.axes[:3]] == ["the picture", "a", "b"]
    layout, images = laid("llava_next")
    figure = plot.over(torch.rand(len(layout.tokens)), layout, images[0], unit="u")
    assert "newlines" in figure._suptitle.get_text()
    assert figure.axes[2].get_title().startswith("thumbnail")


def test_tokens_that_share_a_box_are_drawn_as_their_mean():
    layout, images = laid("idefics2")
    assert bool(layout.mixed.all())
    values = torch.arange(float(len(layout.tokens)))
    (cells,) = plot.over(values, layout, images[0], unit="u").axes[1].collections
    assert cells.get_array().tolist() == pytest.approx([float(values.mean())])


def test_images_and_rows_may_be_axes_of_their_own():
    layout, images = laid("llava", images=2)
    values = torch.rand(3, 2, 17)
    figure = plot.over(values, layout, images, unit="u")
    drawn = [axes.collections[0].get_array() for axes in figure.axes if axes.collections][:6]
    for number, array in enumerate(drawn):
        picture, panel = divmod(number, 3)
        torch.testing.assert_close(torch.as_tensor(array.data), values[panel, picture, 1:])


def test_a_refusal_says_what_to_pass():
    layout, images = laid("llava", images=2)
    with pytest.raises(InputError, match="is none that this layout knows"):
        plot.over(torch.rand(5), layout, images, unit="u")
    with pytest.raises(InputError, match=r"1 pictures were passed, and the layout has 2; pass all .* picture=0"):
        plot.over(torch.rand(34), layout, images[0], unit="u")
    with pytest.raises(InputError, match="there is no picture 2"):
        plot.over(torch.rand(34), layout, images[0], unit="u", picture=2)
    with pytest.raises(InputError, match="the image is 5 x 5, and picture 1"):
        plot.over(torch.rand(34), layout, Image.new("RGB", (5, 5)), unit="u", picture=1)
    with pytest.raises(InputError, match="300 panels are more"):
        plot.over(torch.rand(300, 34), layout, images[0], unit="u", picture=1)
    with pytest.raises(ValueError, match="1 titles and 2 panels"):
        plot.over(torch.rand(2, 34), layout, images, unit="u", titles=["a"])
    windows, pictures = laid("qwen2_5_vl", (64, 48))
    with pytest.raises(InputError, match="pass of='patches' or of='patch_embeddings'"):
        plot.over(torch.rand(len(windows.patches)), windows, pictures, unit="u")


@pytest.mark.parametrize("name", ["llava", "llava_next", "internvl", "qwen2_5_vl", "idefics2", "gemma3", "mllama"])
@pytest.mark.parametrize("scale", ["shared", "panel"])
def test_all_that_is_written_can_be_read(name, scale):
    layout, images = laid(name, (64, 40), images=2)
    titles = [f"vision.layers[{number}].layer_output" for number in range(5)]
    heading = "the length of the stream in every block, of two pictures"
    values = torch.randn(5, len(layout.patches))
    figure = plot.over(
        values, layout, images, of="patches", unit="length in units", heading=heading, titles=titles, scale=scale
    )
    check_written(figure)


def test_of_a_cross_attending_text_the_features_land_as_the_rows_do():
    layout, images = laid("mllama", (64, 40))
    rows, features = layout.arrangements["patches"], layout.arrangements["image_features"]
    values = torch.rand(len(features))
    (cells,) = [axes.collections[0] for axes in plot.over(values, layout, images, unit="u").axes[1:2]]
    found = {tuple(path.get_extents().extents.round(3)): float(one) for path, one in zip(
        cells.get_paths(), cells.get_array(), strict=True
    )}  # fmt: skip
    # By hand: each tile keeps its CLS and its 16 patches, of the 24 rows that it has in the tower.
    for row in (1, 7, 24 + 3):
        tile, inner = divmod(row, 24)
        box = layout.patches.source_box[row].numpy().round(3)
        assert found[tuple(box)] == pytest.approx(float(values[17 * tile + inner]))
    assert len(rows.placed[0]) == len(found)


def test_values_of_which_none_is_a_number_are_refused():
    small = tiny("llava")
    layout = small.model.layout(small.prompt, images=small.images)
    with pytest.raises(InputError, match="nothing to colour"):
        plot.over(torch.full((len(layout.patches),), torch.nan), layout, small.images, unit="none")
