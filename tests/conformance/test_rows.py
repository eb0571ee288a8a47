"""The rows of a tower's patch axis are what its entry says: ahead of the patches, the patches, and behind them."""

import torch


def test_the_towers_rows_are_the_patches_and_what_stands_around_them(wrapper):
    if "image_position_ids" in wrapper.inputs:
        # There the encoding pads pictures to one length.
        return
    model = wrapper.model
    shown = model.pictures(wrapper.inputs)
    with model.trace(**wrapper.inputs):
        rows = model.vision.layers[0].layer_output.save()
    cut = zip(shown.patches, shown.tiles or (1,) * shown.count, strict=True)
    expected = sum(patches + tiles * sum(model.family.rows.around(patches // tiles)) for patches, tiles in cut)
    assert rows.shape[0] * rows.shape[1] == expected


def test_the_patches_rows_are_those_that_the_embedding_made(wrapper):
    """Changing one patch's embedding changes, of what enters the first block, its own row alone."""
    if wrapper.model.family.rows.packed or wrapper.row.later is not None or "image_position_ids" in wrapper.inputs:
        return
    model = wrapper.model
    before, _ = model.family.rows.around(16)
    with model.trace(**wrapper.inputs):
        plain = model.vision.layers[0].layer_input.save()
    with model.trace(**wrapper.inputs):
        # No even shift, which a norm would take away.
        model.vision.patch_embeddings[0, 3] += torch.arange(24.0)
        moved = model.vision.layers[0].layer_input.save()
    assert (moved != plain).any(-1).nonzero().tolist() == [[0, before + 3]]
    assert torch.equal(moved[1:], plain[1:])
