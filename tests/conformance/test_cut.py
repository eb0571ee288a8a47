"""Pictures cut into tiles: counted by the prompt, and refused where the prompt itself was cut."""

import pytest
import torch

from belvedere import InputError
from belvedere.testing import ROWS

CUT = [name for name, row in ROWS.items() if row.cuts]


@pytest.fixture(params=CUT)
def tiled(request):
    from conftest import _built

    return _built[request.param, "sdpa"]


def test_each_picture_has_its_tiles(tiled):
    shown = tiled.model.pictures(tiled.inputs)
    assert shown.tiles == tiled.row.cuts
    assert shown.tokens == tiled.row.pictures
    assert shown.patches == tuple(16 * tiles for tiles in tiled.row.cuts)
    assert shown.images == len(tiled.inputs["pixel_values"])


def test_a_pictures_features_are_of_its_own_tiles(tiled):
    """Another last picture changes the last entry alone."""
    inputs = tiled.inputs
    pixels = inputs["pixel_values"].clone()
    pixels[-tiled.row.cuts[-1] :] *= 0.5
    seen = []
    for given in (inputs, {**inputs, "pixel_values": pixels}):
        with tiled.model.trace(**given):
            split = tiled.model.vision.image_features_per_image.save()
        seen.append(split)
    same = [torch.equal(one, other) for one, other in zip(*seen, strict=True)]
    assert same == [True, True, False]


def test_a_prompt_cut_off_inside_a_tile_is_refused(tiled):
    inputs = tiled.row.solo(1)
    short = {key: held[:, :-8] for key, held in inputs.items() if key != "pixel_values"}
    with pytest.raises(InputError, match="was it truncated inside a picture"):
        with tiled.model.trace(**short, pixel_values=inputs["pixel_values"]):
            tiled.model.logits.save()
