"""Where the patches of a pack are, and their taps of a position table, against transformers' own."""

import pytest
import torch
from geometry.packs import over_packs
from transformers import vision_utils

from belvedere import geometry

RESAMPLINGS = {
    "qwen3": (geometry.BILINEAR, {"mode": "bilinear", "align_corners": True}),
    "kimi": (geometry.BICUBIC, {"mode": "bicubic", "align_corners": False}),
    "paddle": (geometry.BILINEAR_BORDERS, {"mode": "bilinear", "align_corners": False}),
    "muse": (geometry.BILINEAR_ZEROS, {"mode": "bilinear", "align_corners": False, "padding": "zeros"}),
}


@over_packs
def test_position_ids_are_transformers_own(pack):
    merge, grids = pack
    expected = vision_utils.get_vision_position_ids(torch.tensor(grids), merge)
    assert torch.equal(geometry.vision_position_ids(grids, merge), expected)


@over_packs
def test_frame_ids_are_the_time_of_the_position_ids_with_time(pack):
    merge, grids = pack
    expected = vision_utils.get_vision_position_ids(torch.tensor(grids), merge, include_temporal=True)
    assert torch.equal(geometry.vision_frame_ids(grids), expected[:, 0])


@over_packs
def test_position_ids_are_the_merge_block_order_of_each_frame(pack):
    merge, grids = pack
    orders = [
        geometry.merge_block_order(rows, columns, merge) for frames, rows, columns in grids for _ in range(frames)
    ]
    columns = torch.tensor([columns for frames, rows, columns in grids for _ in range(frames * rows * columns)])
    ids = geometry.vision_position_ids(grids, merge)
    assert torch.equal(ids[:, 0] * columns + ids[:, 1], torch.cat(orders))


@pytest.mark.parametrize(("resampling", "settings"), RESAMPLINGS.values(), ids=RESAMPLINGS)
@over_packs
def test_taps_and_weights_are_transformers_own(resampling, settings, pack):
    merge, grids = pack
    side = (7, 16, 1, 48)[len(grids) % 4]
    indices, weights = geometry.vision_interpolation(grids, side, merge, resampling=resampling)
    expected = vision_utils.get_vision_interpolation_indices_and_weights(
        torch.tensor(grids), side, spatial_merge_size=merge, **settings
    )
    assert torch.equal(indices, expected[0])
    torch.testing.assert_close(weights, expected[1], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("name", "corners"), [("bilinear", True), ("bilinear", False), ("bicubic", False)])
def test_the_taps_of_a_table_make_what_pytorch_interpolates(name, corners):
    resampling = geometry.Resampling(taps=4 if name == "bicubic" else 2, aligned="corners" if corners else "borders")
    table = torch.randn(1, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    for rows, columns in [(5, 5), (1, 7), (4, 1), (8, 11)]:
        indices, weights = geometry.vision_interpolation([(1, rows, columns)], 5, 1, resampling=resampling)
        made = (table.flatten(2)[0].T[indices] * weights[..., None]).sum(1)
        seen = torch.nn.functional.interpolate(table, (rows, columns), mode=name, align_corners=corners)
        torch.testing.assert_close(made, seen.flatten(2)[0].T, atol=1e-5, rtol=0)


def test_a_patch_takes_its_two_by_two_neighbourhood_upper_row_first():
    # Three patches on two entries an axis: the middle one is half and half.
    indices, weights = geometry.vision_interpolation([(1, 3, 3)], 2, 1)
    assert indices[4].tolist() == [0, 1, 2, 3]
    assert weights[4].tolist() == [0.25] * 4
    assert indices.shape == weights.shape == (9, 4)


def test_each_entry_may_have_a_fold_of_its_own():
    grids, sides = [(1, 4, 4), (2, 3, 6), (1, 5, 1)], [2, 3, 1]
    expected = vision_utils.get_vision_position_ids(torch.tensor(grids), torch.tensor(sides))
    assert torch.equal(geometry.vision_position_ids(grids, sides), expected)
    with pytest.raises(ValueError, match="3 grids have 2 merge sizes; pass one for all, or one for each"):
        geometry.vision_position_ids(grids, [2, 3])


def test_grids_are_numbers_or_a_tensor():
    grids = [(1, 4, 4), (2, 4, 6)]
    for given in (torch.tensor(grids), torch.tensor(grids, dtype=torch.int32), tuple(map(list, grids))):
        assert torch.equal(geometry.vision_position_ids(given, 2), geometry.vision_position_ids(grids, 2))


def test_an_empty_pack_has_no_patches():
    assert geometry.vision_position_ids([], 2).shape == (0, 2)
    indices, weights = geometry.vision_interpolation([], 8, 2)
    assert indices.shape == weights.shape == (0, 4)


def test_results_go_where_they_are_asked():
    ids = geometry.vision_position_ids([(1, 4, 4)], 2, "meta")
    assert (ids.shape, ids.device.type) == ((16, 2), "meta")
    assert geometry.vision_interpolation([(1, 4, 4)], 8, 2, device=torch.device("meta"))[1].is_meta


def test_the_default_device_does_not_matter():
    with torch.device("meta"):
        ids = geometry.vision_position_ids([(1, 4, 4)], 2)
        taps, _ = geometry.vision_interpolation([(1, 4, 4)], 8, 2)
    assert ids.device.type == taps.device.type == "cpu"


@pytest.mark.parametrize("grids", [[(1, 4)], [(0, 4, 4)], [(1, 4, -4)], (1, 4, 4)])
def test_what_is_no_grid_is_refused(grids):
    with pytest.raises(ValueError, match="three positive numbers an entry"):
        geometry.vision_position_ids(grids, 2)


def test_a_grid_that_cannot_be_folded_is_named():
    with pytest.raises(ValueError, match="a grid of 4 x 5 patches cannot be folded 2 by 2"):
        geometry.vision_position_ids([(1, 4, 4), (1, 4, 5)], 2)
