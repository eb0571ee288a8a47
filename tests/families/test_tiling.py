"""Tiles and image tokens of a picture are those that the wrapper itself makes, whatever the picture's size."""

import random

import pytest
import torch
from conftest import _built

from belvedere.families.tiling import anyres, anyres_scaled
from belvedere.testing import ROWS

PINPOINTS = [[32, 64], [64, 32], [64, 64], [96, 32], [32, 96], [96, 96]]
SIZES = [[random.Random(seed).randint(5, 400), random.Random(-seed - 1).randint(5, 400)] for seed in range(120)]


def packed(module, size, tiles, **given) -> int:
    """How many features the model packs for one picture of that many tiles."""
    features = [torch.zeros(tiles, 16, 32)]
    sizes = torch.tensor([size])
    newline = module.model.image_newline
    made, lengths = module.model.pack_image_features(features, sizes, image_newline=newline, **given)
    assert [len(one) for one in made] == lengths.tolist()
    return int(lengths[0])


@pytest.mark.parametrize(
    ("row", "rule", "given"),
    [
        ("llava_next", anyres, {"vision_feature_select_strategy": "default"}),
        ("llava_onevision_scaled", anyres_scaled, {"vision_aspect_ratio": "anyres_max_2"}),
    ],
)
def test_tokens_are_as_many_as_the_model_packs(row, rule, given, monkeypatch):
    module = _built[row, "sdpa"].raw
    monkeypatch.setattr(module.config, "image_grid_pinpoints", PINPOINTS)
    counted = rule(module.config, {"image_sizes": torch.tensor(SIZES)}, 4, 4)
    assert len({tiles for tiles, _ in counted}) > 3
    for size, (tiles, tokens) in zip(SIZES, counted, strict=True):
        assert tokens == packed(module, size, tiles, **given), size


def test_pictures_stacked_by_prompt_are_those_that_are_not_all_zeros():
    row = ROWS["idefics3"]
    shown = _built["idefics3", "sdpa"].model.pictures(row.inputs())
    assert (shown.count, shown.images, shown.tokens) == (3, 3, (4, 4, 4))


def test_a_picture_cut_into_tiles_has_a_row_in_the_tower_for_each():
    row = ROWS["llava_next"]
    shown = _built["llava_next", "sdpa"].model.pictures(row.inputs())
    assert (shown.count, shown.images, shown.tiles) == (3, 11, (3, 3, 5))
    assert shown.patches == (48, 48, 80)
