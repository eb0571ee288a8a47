"""A painted box of a picture changes the patches and the image tokens that the layout names, and no others.

Pictures are of sizes that the processor does not resample, but for thumbnails, so that no pixel leaks over a border.
"""

from dataclasses import replace

import pytest
import torch
from PIL import Image, ImageChops

from belvedere import InputError
from belvedere.geometry import pieces
from belvedere.testing import ROWS, tiny

MADE = {name: tiny(name) for name, row in ROWS.items() if row.processor is not None}
MADE |= {f"{name} {form}": replace(MADE[name], form=form) for name in MADE for form in ROWS[name].forms}
#: Enlarged, and then shrunk to what it was.
RESAMPLED = {"idefics3 uncut"}
SIDES = (*range(8, 72, 4), 80, 96, 112, 128, 160, 176, 192)


@pytest.fixture(params=[name for name in MADE if name not in RESAMPLED])
def small(request):
    return MADE[request.param]


def kept(processor, size):
    """Whether a picture of a size reaches the tower without resampling, its thumbnail apart."""
    try:
        made = pieces(processor, size)
    except InputError:
        return False
    return all(piece.view.scale == (1, 1) for piece in made if piece.kind != "thumbnail")


def noise(size):
    made = torch.Generator().manual_seed(sum(size))
    pixels = torch.randint(0, 256, (size[1], size[0], 3), generator=made).byte()
    return Image.fromarray(pixels.numpy())


def shown(small):
    """The largest picture that is not resampled, and the widest one that is no strip."""
    sizes = [(width, height) for width in SIDES for height in SIDES if kept(small.processor, (width, height))]
    assert sizes, "the processor resamples pictures of every size that was tried"
    wide = [size for size in sizes if 16 <= size[1] <= size[0] <= 2 * size[1]] or sizes
    return {max(wide, key=lambda size: size[0] * size[1]), max(wide, key=lambda size: size[0] / size[1])}


def boxes(size):
    width, height = size
    yield 0, 0, 1, 1
    yield width // 3, height // 4, width // 3 + 5, height // 4 + 3
    yield width - 9, height - 2, width, height


def seen(small, image):
    """The patches of a picture, and its image features where the tower's attention is cut."""
    model, tower, features = small.model, small.model.vision, None
    with model.trace(small.row.placeholder + " ?", images=[image]):
        patches = tower.patch_embeddings.save()
        for block in tower.layers:
            block.self_attn.attention_output = block.self_attn.attention_output * 0
        if not small.row.cross:
            features = tower.image_features.save()
    return patches.flatten(0, -2), features


def test_a_painted_box_changes_what_the_layout_names(small):
    for size in shown(small):
        image = noise(size)
        layout = small.model.layout(small.row.placeholder + " ?", images=[image])
        assert layout.sizes == (size,)
        patches, features = seen(small, image)
        embedded = layout.arrangements["patch_embeddings"]
        rows = layout.arrangements["patches"]
        for box in boxes(size):
            painted = image.copy()
            painted.paste(ImageChops.invert(image.crop(box)), box)
            other, others = seen(small, painted)
            changed = (other != patches).any(-1)
            named = torch.isin(torch.arange(len(layout.patches)), layout.patches_in(box))
            for region, own, at in zip(rows.regions, rows.placed, embedded.placed, strict=True):
                if region.part == "thumbnail":
                    assert changed[at][named[own]].all()
                else:
                    assert torch.equal(changed[at], named[own]), (size, box, region)
            if features is None:
                continue
            moved = (others != features).any(-1)
            told = torch.isin(torch.arange(len(moved)), layout.tokens_in(box))
            thumbnail = layout.tokens.of_kind("thumbnail")
            assert moved[told].all()
            assert torch.equal(moved[~thumbnail], told[~thumbnail]), (size, box)
