"""The layout of pictures of any size, one or two to a prompt: its boxes tile what the processor shows of each."""

from dataclasses import replace

import pytest
import torch
from PIL import Image

from belvedere.geometry import pieces
from belvedere.testing import ROWS, tiny

SIZES = [[(82, 47)], [(28, 36)], [(77, 55)], [(53, 67), (66, 108)], [(19, 54), (55, 62)]]
FORMS = [(name, form) for name, row in ROWS.items() if row.processor is not None for form in ("", *row.forms)]


@pytest.fixture(scope="module", params=FORMS, ids=" ".join)
def small(request):
    name, form = request.param
    return replace(tiny(name), form=form) if form else tiny(name)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_pictures_of_odd_sizes_have_their_boxes(small, sizes):
    images = [Image.new("RGB", size) for size in sizes]
    try:
        small.processor(images=images, text=f"{small.row.placeholder} what " * len(images), return_tensors="pt")
    except (RuntimeError, ValueError):
        return
    layout = small.model.layout(f"{small.row.placeholder} what " * len(images), images=images)
    assert layout.sizes == tuple(sizes)
    cells = layout.patches
    small_ones = torch.tensor([region.part == "thumbnail" for region in layout.regions])[cells.region]
    for image, size in enumerate(sizes):
        whole = torch.tensor([0.0, 0.0, *size], dtype=torch.float64)
        boxes = within(cells.source_box[cells.of_kind("patch") & cells.image.eq(image) & ~small_ones], whole)
        made = pieces(small.processor, size, alone=len(sizes) == 1, batch=sizes)
        seen = [
            within(patched(piece, small.model.vision.patch_size), whole) for piece in made if piece.kind != "thumbnail"
        ]
        torch.testing.assert_close(area(boxes).sum(), area(torch.stack(seen)).sum())
        least, most = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
        shared = (most - least).clamp(min=0).prod(-1)
        assert float((shared - shared.diag().diag()).max()) < 1e-6


def patched(piece, side):
    """The box of the original picture under the whole patches of a piece."""
    end = torch.tensor([0, 0, *(length // side * side for length in piece.size)], dtype=torch.float64)
    return piece.view.boxes(end)


def within(boxes, box):
    return torch.cat([boxes[..., :2].clamp(box[:2], box[2:]), boxes[..., 2:].clamp(box[:2], box[2:])], -1)


def area(boxes):
    return (boxes[..., 2:] - boxes[..., :2]).prod(-1)
