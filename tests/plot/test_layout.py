"""The picture of a layout: each number stands on the patch or token that it names, on every wrapper."""

import re
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import matplotlib.colors
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessor, LlavaConfig, Qwen2_5_VLConfig, Qwen2VLImageProcessor

from belvedere import InputError, StandardizedTransformer, plot
from belvedere.plot import style
from belvedere.testing import ROWS, tiny

WIDE = Image.new("RGB", (480, 320), "green")
SHOWN = [name for name, row in ROWS.items() if row.processor is not None]


@cache
def laid(name, form=""):
    """The layout of the wide picture by a row of the zoo, without weights."""
    row = ROWS[name]
    model = StandardizedTransformer.from_config(row.config())
    model.processor = row.forms[form]() if form else row.processor()
    return model.layout(f"{row.placeholder} ?", images=[WIDE])


def bare(config, pixels):
    model = StandardizedTransformer.from_config(config)
    model.processor = SimpleNamespace(image_processor=pixels)
    return model


def numbers(axes):
    """What is written into the picture, and where."""
    return {text.get_text(): text.get_position() for text in axes.texts if text.get_text().isdigit()}


def edges(axes, color):
    """How many outlines of a colour there are."""
    wanted = matplotlib.colors.to_rgba(color)
    return sum(
        len(drawn.get_paths())
        for drawn in axes.collections
        if len(drawn.get_edgecolor()) and tuple(drawn.get_edgecolor()[0]) == wanted
    )


def areas(axes, label):
    return [patch.get_bbox() for patch in axes.patches if patch.get_label() == label]


@pytest.mark.parametrize("name", SHOWN)
def test_each_row_of_the_tower_is_numbered_at_its_patch(name):
    layout = laid(name)
    shown = [numbers(axes) for axes in plot.layout(layout, WIDE, of="patches").axes]
    written = {int(label): place for panel in shown for label, place in panel.items()}
    assert sum(map(len, shown)) == len(written)
    for number, place in written.items():
        left, top, right, bottom = layout.patches[number].source_box
        assert place == pytest.approx(((left + right) / 2, (top + bottom) / 2))
    patches = layout.patches.of_kind("patch").nonzero().flatten().tolist()
    if len(patches) <= 300:
        assert sorted(written) == patches


@pytest.mark.parametrize("name", [name for name in SHOWN if not ROWS[name].cross])
def test_each_image_token_is_numbered_at_its_box(name):
    layout = laid(name)
    axes = plot.layout(layout, WIDE, of="tokens").axes
    written = {int(label): place for panel in axes for label, place in numbers(panel).items()}
    for number, place in written.items():
        left, top, right, bottom = layout.tokens.source_box[number].tolist()
        assert place == pytest.approx(((left + right) / 2, (top + bottom) / 2))
    boxed = (layout.tokens.of_kind("patch", "thumbnail") & ~layout.mixed).nonzero().flatten().tolist()
    if len(boxed) <= 300:
        assert sorted(written) == boxed
    ends = [text.get_text()[1:] for panel in axes for text in panel.texts if text.get_text()[0] == "\u21b5"]
    assert [int(end) for end in ends] == layout.tokens.of_kind("newline").nonzero().flatten().tolist()


def test_rows_are_beside_tokens_and_a_thumbnail_beside_its_picture():
    layout = laid("internvl")
    titles = [axes.get_title().replace("\n", " ") for axes in plot.layout(layout, WIDE).axes]
    assert titles == [
        "picture: 4 x 8 patches, tower rows 1-16, 18-33",
        "thumbnail: 4 x 4 patches, tower rows 35-50",
        "picture: 8 image tokens",
        "thumbnail: 4 image tokens",
    ]
    whole, thumbnail, *_ = plot.layout(layout, WIDE).axes
    assert whole.get_xlabel() == "CLS: rows 0, 17, 34"
    assert thumbnail.get_xlabel() == ""
    assert thumbnail.get_window_extent().width < whole.get_window_extent().width


def test_every_patch_and_every_token_has_an_outline():
    rows, tokens = plot.layout(laid("qwen2_5_vl"), WIDE).axes
    assert edges(rows, style.INK) == 48
    assert edges(tokens, style.FAINT) == 48
    assert edges(tokens, style.MARK) == 12


def test_the_way_through_the_rows_goes_window_by_window():
    (axes,) = plot.layout(laid("qwen2_5_vl"), WIDE, of="patches").axes
    places = numbers(axes)
    # Windows of 4 x 4 patches of 60 x 53 pixels, and in them folds of 2 x 2.
    assert [places[str(number)][0] for number in (0, 1, 2, 3, 4)] == pytest.approx([30, 90, 30, 90, 150])
    assert places["16"] == pytest.approx((270, 320 / 12))
    way = next(drawn for drawn in axes.collections if drawn.get_label() == "way").get_segments()
    steps = {tuple(map(tuple, step.round(3).tolist())) for step in way}
    there = {label: tuple(round(side, 3) for side in place) for label, place in places.items()}
    assert (there["0"], there["1"]) in steps
    assert (there["3"], there["4"]) in steps
    assert (there["15"], there["16"]) not in steps


def test_what_a_crop_leaves_out_is_dark():
    for axes in plot.layout(laid("llava"), WIDE).axes:
        dark = sorted(tuple(box.extents) for box in areas(axes, "cut off by the processor"))
        assert dark == [pytest.approx((0, 0, 80, 320)), pytest.approx((400, 0, 480, 320))]
        assert not areas(axes, "added by the processor")
        assert axes.get_xlim() == (0, 480)


def test_padding_is_shown_around_the_picture():
    layout = laid("llama4")
    whole, thumbnail, *_ = plot.layout(layout, WIDE).axes
    assert [tuple(box.extents) for box in areas(whole, "added by the processor")] == [(480, 0, 640, 320)]
    assert whole.get_xlim() == (0, 640)
    assert thumbnail.get_xlim() == (0, 480)
    assert not areas(whole, "cut off by the processor")


def test_a_resampler_s_tokens_share_a_box():
    (axes,) = plot.layout(laid("idefics2"), WIDE, of="tokens").axes
    assert [text.get_text() for text in axes.texts] == ["0-2"]
    assert axes.get_xlabel() == "each of 3 tokens is made of all 24 patches of its box"
    cut = plot.layout(laid("idefics2", "cut"), WIDE, of="tokens")
    written = [text.get_text() for axes in cut.axes for text in axes.texts]
    assert written == ["0-2", "3-5", "6-8", "9-11", "12-14"]


def test_a_picture_that_is_not_cut_has_one_newline_behind_it():
    small = tiny("llava_onevision")
    layout = small.model.layout(small.prompt, images=small.images)
    for number, image in enumerate(small.images):
        (axes,) = plot.layout(layout, image, number, of="tokens").axes
        ends = [text.get_text() for text in axes.texts if not text.get_text().isdigit()]
        assert ends == [f"\u21b5{int(layout.tokens_of(number)[-1])}"]


def test_what_shows_no_pixels_is_named_below():
    small = tiny("llava", vision_feature_select_strategy="full")
    small.model.processor.vision_feature_select_strategy = "full"
    layout = small.model.layout("<image> ?", images=[WIDE])
    rows, tokens = plot.layout(layout, WIDE).axes
    assert rows.get_xlabel() == "CLS: row 0"
    assert tokens.get_xlabel() == "a token is made of 1 patch\nCLS: token 0"
    assert tokens.get_title() == "picture: 16 image tokens"
    assert sorted(map(int, numbers(tokens))) == list(range(1, 17))
    assert plot.layout(laid("gemma4"), WIDE, of="patches").axes[0].get_xlabel() == "padding: rows 240-279"


def test_each_of_several_pictures_has_a_figure():
    small = tiny("qwen2_vl")
    layout = small.model.layout(small.prompt, images=small.images)
    for number, image in enumerate(small.images):
        rows, tokens = plot.layout(layout, image, number).axes
        assert sorted(map(int, numbers(rows))) == layout.rows_of(number).tolist()
        assert sorted(map(int, numbers(tokens))) == layout.tokens_of(number).tolist()
        assert rows.get_title().startswith(f"picture {number}: ")
    assert plot.layout(layout, small.images[1], -1).axes[0].get_title().startswith("picture 1: ")


def test_a_frame_of_a_video_is_drawn_alone():
    small = tiny("qwen2_vl")
    layout = small.model.video_layout(small.row.video(), sizes=[(48, 32)])
    frame = Image.new("RGB", (48, 32))
    rows, tokens = plot.layout(layout, frame, frame=1).axes
    assert sorted(map(int, numbers(rows))) == list(range(24, 48))
    assert sorted(map(int, numbers(tokens))) == list(range(6, 12))
    with pytest.raises(InputError, match="there is no frame 2; picture 0 has 2"):
        plot.layout(layout, frame, frame=2)


def crowded(axes):
    """The pairs of numbers whose boxes touch."""
    boxes = [text.get_window_extent() for text in axes.texts]
    return [(one, other) for one in range(len(boxes)) for other in range(one) if boxes[one].overlaps(boxes[other])]


def real_sizes():
    clip = bare(
        LlavaConfig(image_token_index=5), CLIPImageProcessor(size={"shortest_edge": 336}, crop_size=336)
    ).layout({"input_ids": torch.full((1, 576), 5), "pixel_values": torch.zeros(1, 3, 336, 336)}, sizes=[WIDE.size])
    pixels = Qwen2VLImageProcessor()
    encoding = pixels([WIDE], return_tensors="pt")
    ids = torch.full((1, int(encoding["image_grid_thw"].prod()) // 4), 5)
    qwen = bare(Qwen2_5_VLConfig(image_token_id=5), pixels).layout({"input_ids": ids, **encoding}, sizes=[WIDE.size])
    return {"clip": clip, "qwen": qwen}


@pytest.mark.parametrize("name", ["clip", "qwen", "internvl", "gemma4", "llava_next", "kimi_k25"])
def test_numbers_never_touch_and_titles_are_not_cut(name):
    layout = real_sizes()[name] if name in ("clip", "qwen") else laid(name)
    made = plot.layout(layout, WIDE)
    made.draw_without_rendering()
    for axes in made.axes:
        assert not crowded(axes)
        assert len(axes.texts) >= 10 or len(axes.texts) == len(numbers(axes))
        for text in (axes.title, axes.xaxis.label, *axes.texts):
            box = text.get_window_extent()
            assert box.width == 0 or (made.bbox.padded(1).containsx(box.x0) and made.bbox.padded(1).containsx(box.x1))
            assert box.height == 0 or made.bbox.padded(1).containsy(box.y1)


def test_the_figure_shows_itself():
    assert plot.layout(laid("llava"), WIDE)._repr_png_().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused():
    layout = laid("llava")
    with pytest.raises(InputError, match="there is no picture 1; there are 1"):
        plot.layout(layout, WIDE, 1)
    with pytest.raises(InputError, match="of='rows' is nothing to draw; pass 'patches' or 'tokens'"):
        plot.layout(layout, WIDE, of="rows")
    with pytest.raises(InputError, match="the image is 32 x 32, and picture 0 of this layout 480 x 320"):
        plot.layout(layout, Image.new("RGB", (32, 32)))
    small = tiny("llava")
    with pytest.raises(InputError, match=r"is not known: an encoding does not say .* pass `sizes="):
        plot.layout(small.model.layout(small.encoding), WIDE)


def test_where_text_attends_to_the_rows_there_are_no_tokens_to_draw():
    layout = laid("mllama")
    assert [axes.get_title()[:8] for axes in plot.layout(layout, WIDE).axes] == ["picture:"]
    with pytest.raises(InputError, match=r"picture 0 has no image tokens: .* pass of='patches'"):
        plot.layout(layout, WIDE, of="tokens")


def test_a_notebook_shows_a_layout_as_a_table_of_its_grids():
    cells = re.findall(r"<td>(.*?)</td>", laid("internvl")._repr_html_())
    assert cells == [
        *("picture 0: 4 x 8", "32", "8"),
        *("thumbnail 0: 4 x 4", "16", "4"),
        *("all, with what stands in no grid", "51", "12"),
    ]


@cache
def large(size):
    """A packed tower's layout of a large or a long picture."""
    made = tiny("qwen2_vl")
    made.processor.image_processor.size = {"shortest_edge": 64, "longest_edge": 10**7}
    image = Image.new("RGB", size, "green")
    # No tokenizer: a prompt of so many tokens would be longer than it likes.
    model = bare(made.module.config, made.processor.image_processor)
    pixels = made.processor.image_processor([image], return_tensors="pt")
    ids = torch.full((1, int(pixels["image_grid_thw"].prod()) // 4), model.placeholder("image"))
    return model.layout({"input_ids": ids, **pixels}, sizes=[size]), image


@pytest.mark.parametrize("size", [(800, 600), (1500, 40), (40, 1500), (600, 64)])
def test_numbers_and_titles_of_thousands_of_patches_and_of_narrow_pictures_can_be_read(size):
    layout, image = large(size)
    figure = plot.layout(layout, image)
    figure.draw_without_rendering()
    titles = [axes.title.get_window_extent() for axes in figure.axes]
    assert all(0 <= box.x0 < box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height for box in titles)
    assert all("-\n" not in axes.get_title() for axes in figure.axes)
    assert not any(one.overlaps(two) for one, two in pairwise(titles))
    assert max(figure.get_size_inches()) < 30
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) >= 20
        assert min(text.get_fontsize() for text in axes.texts) >= 5
        edges = torch.tensor([box.extents.tolist() for box in boxes])
        low, high = edges[:, :2], edges[:, 2:]
        common = torch.minimum(high[:, None], high[None]) - torch.maximum(low[:, None], low[None])
        over = common.amin(-1).fill_diagonal_(-1)
        # Boxes of letters hold room above and below the letters.
        assert float(over.max()) <= 2, "a number lies over another"


def test_words_of_a_title_are_not_broken():
    layout, image = large((40, 1500))
    for axes in plot.layout(layout, image).axes:
        assert "patches" in axes.get_title() or "image tokens" in axes.get_title().replace("\n", " ")
