"""Where patches and tokens are in models of their real sizes, by hand; no weights and no forward."""

from types import SimpleNamespace

import pytest
import torch
import transformers
from transformers import (
    CLIPImageProcessor,
    InternVLConfig,
    LlavaConfig,
    LlavaNextConfig,
    LlavaOnevisionConfig,
    Qwen2_5_VLConfig,
    Qwen2VLConfig,
)

from belvedere import InputError, StandardizedTransformer
from belvedere.testing import tiny

WORD, IMAGE = 9, 5


def model_of(config, pixels=None):
    """A model without weights, whose processor is an image processor alone."""
    model = StandardizedTransformer.from_config(config)
    model.processor = None if pixels is None else SimpleNamespace(image_processor=pixels)
    return model


def ids(*runs):
    """A prompt of words and placeholders: a positive number of words, or a negative one of placeholders."""
    return torch.tensor([[token for run in runs for token in [IMAGE if run < 0 else WORD] * abs(run)]])


def qwen(config=Qwen2VLConfig, **given):
    made = config(image_token_id=IMAGE, **given)
    return model_of(made, transformers.Qwen2VLImageProcessor())


def packed(grids, *runs):
    grids = torch.tensor(grids)
    patches = int(grids.prod(-1).sum())
    return {"input_ids": ids(*runs), "pixel_values": torch.zeros(patches, 1176), "image_grid_thw": grids}


def test_a_grid_of_four_by_four_in_merge_blocks():
    layout = qwen().layout(packed([[1, 4, 4]], 1, -4, 1))
    rows, columns = layout.patches.row, layout.patches.column
    assert (4 * rows + columns).tolist() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert (layout.patches[2].row, layout.patches[2].column) == (1, 0)
    named = layout.patches_of(1)
    assert set(rows[named].tolist()) == {0, 1}
    assert set(columns[named].tolist()) == {2, 3}
    assert layout.token_of(4) == 1
    assert layout.patches[4].box == (28, 0, 42, 14)


def test_two_pictures_of_one_row_are_apart():
    layout = qwen().layout(packed([[1, 4, 6], [1, 2, 4]], 3, -6, 2, -2, 4))
    assert [len(layout.tokens_of(image)) for image in (0, 1)] == [6, 2]
    assert layout.positions[layout.tokens_of(0), 1].tolist() == list(range(3, 9))
    assert layout.positions[layout.tokens_of(1), 1].tolist() == [11, 12]
    assert layout.rows_of(1).tolist() == list(range(24, 32))
    # The residual of each picture and of the text cover the sequence once.
    stream = torch.arange(17.0).view(1, 17, 1)
    grids = layout.to_grid(stream)
    assert [list(one.shape) for one in grids] == [[1, 2, 3, 1], [1, 1, 2, 1]]
    assert sorted([*grids[0].flatten().tolist(), *grids[1].flatten().tolist(), *grids.rest.flatten().tolist()]) == list(
        range(17)
    )


def test_a_batch_says_which_prompt_attends():
    """Two prompts, of which the second is as long as all image tokens together."""
    batch = torch.cat([ids(1, -8, 3), ids(2, -4, 6)])
    encoding = {**packed([[1, 4, 8], [1, 4, 4]]), "input_ids": batch, "attention_mask": torch.ones_like(batch)}
    layout = qwen().layout(encoding)
    pattern = torch.rand(3, 12).softmax(-1)
    with pytest.raises(InputError, match=r"as long as each of 2 prompts; pass prompt=0, 1, \.\.\. to say which"):
        layout.to_grid(pattern, dim=-1)
    grids = layout.to_grid(pattern, dim=-1, prompt=1)
    assert grids[1].shape == (3, 1, 2, 2)
    assert torch.equal(grids[1].flatten(1), pattern[:, 2:6])
    assert torch.equal(layout.from_grid(grids), pattern)
    with pytest.raises(InputError, match="picture 0 is not among those that were laid out"):
        grids[0]
    with pytest.raises(InputError, match="there is no prompt 2; there are 2"):
        layout.to_grid(pattern, dim=-1, prompt=2)


def test_a_photo_of_640_by_320_stretches_over_the_whole_grid_of_a_packed_tower():
    model = qwen(Qwen2_5_VLConfig)
    # 640 x 320 rounds to 644 x 308, which is 46 x 22 patches of 14.
    layout = model.layout(packed([[1, 22, 46]], 1, -253, 1), sizes=[(640, 320)])
    assert layout.unsourced is None
    boxes = layout.to_grid(layout.patches.source_box, of="patches")[0][0]
    torch.testing.assert_close(boxes[0, 0], torch.tensor([0, 0, 640 / 46, 320 / 22], dtype=torch.float64))
    torch.testing.assert_close(boxes[21, 45, 2:], torch.tensor([640, 320], dtype=torch.float64))
    tokens = layout.tokens_in((290, 150, 300, 160))
    (hot,) = {(int(layout.tokens.row[token]), int(layout.tokens.column[token])) for token in tokens}
    assert hot == (5, 10)  # 11 x 23 tokens over the picture: 155 / 320 * 11 is 5.2 and 295 / 640 * 23 is 10.6


def test_a_photo_of_640_by_320_loses_its_sides_to_a_centre_crop():
    pixels = CLIPImageProcessor(size={"shortest_edge": 336}, crop_size=336)
    model = model_of(LlavaConfig(image_token_index=IMAGE), pixels)
    encoding = {"input_ids": ids(7, -576, 3), "pixel_values": torch.zeros(1, 3, 336, 336)}
    layout = model.layout(encoding, sizes=[(640, 320)])
    assert layout.patches[0].kind == "cls"
    corner, last = layout.tokens[0].source_box, layout.tokens[575].source_box
    assert corner == pytest.approx((160, 0, 160 + 40 / 3, 40 / 3))
    assert last == pytest.approx((480 - 40 / 3, 320 - 40 / 3, 480, 320))
    assert not len(layout.patches_in((0, 0, 150, 320)))
    assert layout.token_of(0) is None
    assert layout.token_of(1) == 0
    # What each of 32 heads of a text block attends to, from the last token of the prompt.
    pattern = torch.rand(32, 586).softmax(-1)
    grids = layout.to_grid(pattern, dim=-1)
    assert grids[0].shape == (32, 1, 24, 24)
    torch.testing.assert_close(grids[0].sum((1, 2, 3)) + grids.rest.sum(-1), torch.ones(32))


def test_spans_come_from_the_prompt_and_not_from_a_constant():
    model = model_of(LlavaConfig(image_token_index=IMAGE))
    encoding = {"input_ids": ids(300, -576, 20, -576, 5), "pixel_values": torch.zeros(2, 3, 336, 336)}
    layout = model.layout(encoding)
    first, second = (layout.positions[layout.tokens_of(image), 1] for image in (0, 1))
    assert (first.tolist(), second.tolist()) == (list(range(300, 876)), list(range(896, 1472)))


def test_a_prompt_cut_off_inside_a_picture_is_refused_with_both_numbers():
    model = model_of(LlavaConfig(image_token_index=IMAGE))
    with pytest.raises(InputError, match=r"the prompt has 500 image token\(s\) and the picture\(s\) have 576"):
        model.layout({"input_ids": ids(3, -500), "pixel_values": torch.zeros(1, 3, 336, 336)})


def test_a_pixel_shuffle_of_four_by_four():
    layout = tiny("internvl").model.layout(tiny("internvl").encoding)
    numbers = 4 * layout.patches.row + layout.patches.column
    held = [set(numbers[layout.patches_of(token)].tolist()) for token in range(4)]
    assert held == [{0, 1, 4, 5}, {2, 3, 6, 7}, {8, 9, 12, 13}, {10, 11, 14, 15}]


def test_tiles_are_stitched_and_the_thumbnail_stands_apart():
    config = InternVLConfig(image_token_id=IMAGE)
    pixels = transformers.GotOcr2ImageProcessor(
        size={"height": 448, "width": 448}, crop_to_patches=True, min_patches=1, max_patches=4
    )
    encoding = {"input_ids": ids(2, -1280, 2), "pixel_values": torch.zeros(5, 3, 448, 448)}
    layout = model_of(config, pixels).layout(encoding, sizes=[(900, 900)])
    weight = torch.zeros(1280)
    weight[256 + 16 * 3 + 5] = 1  # row 3 and column 5 of the second tile, at the top right
    grids = layout.to_grid(weight)
    assert grids[0].shape == (1, 32, 32)
    assert grids.thumbnails[0].shape == (1, 16, 16)
    assert grids[0].nonzero().tolist() == [[0, 3, 21]]
    side = 900 / 32
    assert layout.tokens[256 + 53].source_box == pytest.approx((21 * side, 3 * side, 22 * side, 4 * side))
    assert layout.tokens[1024].kind == "thumbnail"


def test_newlines_are_flagged_and_kept_out_of_the_maps():
    config = LlavaNextConfig(image_token_index=IMAGE, image_grid_pinpoints=[[672, 672]])
    encoding = {
        "input_ids": ids(1, -2928, 1),
        "pixel_values": torch.zeros(1, 5, 3, 336, 336),
        "image_sizes": torch.tensor([[672, 672]]),
    }
    layout = model_of(config).layout(encoding)
    assert len(layout.tokens) == 2928 == 576 + 48 * (48 + 1)
    assert int(layout.tokens.of_kind("newline").sum()) == 48
    grids = layout.to_grid(torch.ones(2928, 2))
    assert grids[0].shape == (1, 48, 48, 2)
    assert grids.thumbnails[0].shape == (1, 24, 24, 2)
    assert grids.rest.shape == (48, 2)


@pytest.mark.parametrize("size", [(17, 400), (384, 384), (1000, 300), (333, 777), (1200, 1100), (385, 383)])
def test_a_picture_of_any_size_has_as_many_tokens_as_features(size):
    """As many as the model's own packing makes of zeros."""
    from transformers.models.llava_onevision import modeling_llava_onevision as native

    config = LlavaOnevisionConfig(image_token_index=IMAGE)
    width, height = size
    tiles = native.image_size_to_num_patches([height, width], config.image_grid_pinpoints, 384)
    features = torch.zeros(tiles, 729, 1)
    packed, _ = native.LlavaOnevisionModel.pack_image_features(
        SimpleNamespace(config=config),
        [features],
        torch.tensor([[height, width]]),
        image_newline=torch.ones(1),
        vision_aspect_ratio="anyres_max_9",
    )
    encoding = {
        "input_ids": ids(1, -len(packed[0]), 1),
        "pixel_values": torch.zeros(1, tiles, 3, 384, 384),
        "image_sizes": torch.tensor([[height, width]]),
        "batch_num_images": torch.tensor([1]),
    }
    layout = model_of(config).layout(encoding)
    assert len(layout.tokens) == len(packed[0])
    assert torch.equal(layout.tokens.of_kind("newline"), packed[0][:, 0].eq(1))


def test_rows_are_told_by_their_number_unless_that_leaves_a_doubt():
    layout = qwen(Qwen2_5_VLConfig).layout(packed([[1, 12, 12]], 1, -36, 1))
    with pytest.raises(InputError, match=r"may be several things here; pass of='patches' or of='patch_embeddings'"):
        layout.to_grid(torch.zeros(1, 144, 8))
    with pytest.raises(InputError, match=r"axis 0 of \[1, 7, 8\] is none that this layout knows; it has patches 144"):
        layout.to_grid(torch.zeros(1, 7, 8))
    with pytest.raises(InputError, match="of='rows' is no order of this model's rows; there are patches"):
        layout.to_grid(torch.zeros(1, 144, 8), of="rows")
    windows = layout.to_grid(torch.arange(144).view(1, 144), of="patches")[0][0]
    # Windows of 8 x 8 patches: the second begins at column 8 with its first fold.
    assert windows[0, :4].tolist() == [0, 1, 4, 5]
    assert int(windows[0, 8]) == 64


def test_a_plain_list_of_grids_goes_back_with_zeros_elsewhere():
    model = model_of(LlavaConfig(image_token_index=IMAGE))
    layout = model.layout({"input_ids": ids(3, -576), "pixel_values": torch.zeros(1, 3, 336, 336)})
    mask = torch.zeros(1, 24, 24)
    mask[0, 2, 3] = 1
    rows = layout.from_grid([mask])
    assert rows.nonzero().flatten().tolist() == [1 + 2 * 24 + 3]
    with pytest.raises(InputError, match=r"grids of \[\(1, 2, 2\)\] were given; this layout has picture 0: 24 x 24"):
        layout.from_grid([torch.zeros(1, 2, 2)])


def test_what_is_not_there_is_refused():
    layout = qwen().layout(packed([[1, 4, 4]], 1, -4, 1), sizes=[(56, 56)])
    with pytest.raises(InputError, match="there is no picture 1; there are 1"):
        layout.tokens_of(1)
    with pytest.raises(InputError, match="there is no image token 4; there are 4"):
        layout.patches_of(4)
    with pytest.raises(InputError, match="covers nothing of picture 0, which is 56 x 56"):
        layout.patches_in((60, 0, 70, 10))
    with pytest.raises(InputError, match="2 sizes were passed for 1 picture; pass one for each"):
        qwen().layout(packed([[1, 4, 4]], 1, -4, 1), sizes=[(56, 56), (56, 56)])
    for wrong in ((0, 0), (-90, 50), (90,)):
        with pytest.raises(InputError, match=r"is no size; pass \(width, height\) in pixels for each image"):
            qwen().layout(packed([[1, 4, 4]], 1, -4, 1), sizes=[wrong])
    with pytest.raises(InputError, match="pass the size of the encoded picture"):
        qwen().layout(packed([[1, 4, 4]], 1, -4, 1), sizes=[(560, 56)])
