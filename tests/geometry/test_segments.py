"""The attending segments of a pack and its window order, against transformers' own."""

import pytest
import torch
from geometry.packs import over_packs
from transformers import vision_utils

from belvedere import geometry

#: In patches of 14: a window of a fold or two, Qwen2.5-VL's own, and one that is no multiple of the fold.
WINDOWS = (42, 56, 112, 98)


@over_packs
def test_a_frame_is_a_segment(pack):
    _, grids = pack
    lengths = geometry.vision_seq_lengths(grids)
    assert lengths.tolist() == [rows * columns for frames, rows, columns in grids for _ in range(frames)]
    expected = vision_utils.get_vision_cu_seqlens(torch.tensor(grids))
    bounds = geometry.cu_seqlens(lengths)
    assert torch.equal(bounds, expected)
    assert bounds.dtype == expected.dtype


@over_packs
def test_a_clip_is_a_segment_where_frames_see_each_other(pack):
    _, grids = pack
    expected = vision_utils.get_vision_cu_seqlens(torch.tensor(grids), merge_temporal=True)
    assert torch.equal(geometry.cu_seqlens(geometry.vision_clip_lengths(grids)), expected)


@over_packs
def test_windows_are_transformers_own(pack):
    merge, grids = pack
    size = WINDOWS[len(grids) % len(WINDOWS)]
    folds, bounds = vision_utils.get_vision_window_index(torch.tensor(grids), merge, size, 14)
    lengths = geometry.vision_seq_lengths(grids, window_size=size, patch_size=14, spatial_merge_size=merge)
    assert torch.equal(geometry.cu_seqlens(lengths), bounds)
    order = geometry.vision_window_order(grids, size, 14, merge)
    rows = torch.arange(len(order)).view(-1, merge**2)
    assert torch.equal(order, rows[folds].flatten())
    assert torch.equal(order[:: merge**2] // merge**2, folds)
    assert torch.equal(geometry.inverse(order)[:: merge**2] // merge**2, folds.argsort())


@over_packs
def test_the_order_of_a_pack_is_that_of_each_frame(pack):
    merge, grids = pack
    order, start = geometry.vision_window_order(grids, 56, 14, merge), 0
    for frames, rows, columns in grids:
        blocks, windows = (
            geometry.merge_block_order(rows, columns, merge),
            geometry.window_order(rows, columns, merge, 4),
        )
        for _ in range(frames):
            own = order[start : start + rows * columns] - start
            assert torch.equal(blocks[own], windows)
            start += rows * columns


def test_the_inverse_of_the_window_order_is_the_way_back():
    order = geometry.vision_window_order([(2, 6, 10), (1, 4, 4)], 56, 14, 2)
    rows = torch.arange(136)
    assert not torch.equal(order, rows)
    assert torch.equal(rows[order][geometry.inverse(order)], rows)


def test_windows_at_the_border_are_smaller():
    lengths = geometry.vision_seq_lengths([(1, 6, 6)], window_size=56, patch_size=14, spatial_merge_size=2)
    assert lengths.tolist() == [16, 8, 8, 4]


def test_the_default_device_does_not_matter():
    with torch.device("meta"):
        lengths = geometry.vision_seq_lengths([(1, 6, 6)], window_size=56, patch_size=14, spatial_merge_size=2)
        order = geometry.vision_window_order([(1, 6, 6)], 56, 14, 2)
    assert lengths.device.type == order.device.type == "cpu"


def test_an_empty_pack_has_no_segments():
    assert geometry.vision_seq_lengths([]).shape == (0,)
    assert geometry.cu_seqlens(geometry.vision_clip_lengths([])).tolist() == [0]
    assert geometry.vision_window_order([], 112, 14, 2).shape == (0,)


def test_a_window_without_its_patches_is_refused():
    with pytest.raises(ValueError, match="pass patch_size and spatial_merge_size too"):
        geometry.vision_seq_lengths([(1, 4, 4)], window_size=112)


def test_a_window_that_holds_no_fold_is_refused():
    with pytest.raises(ValueError, match="a window of 14 pixels a side holds no fold of patches of 14"):
        geometry.vision_window_order([(1, 4, 4)], 14, 14, 2)
