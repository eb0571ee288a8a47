"""The layout of pictures of any size, one or two to a prompt: its boxes tile what the processor shows of each."""

from dataclasses import replace

import pytest
import torch
from PIL import Image

from belvedere import InputError
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
        seen = [within(patched(piece, small.model), whole) for piece in made if piece.kind != "thumbnail"]
        torch.testing.assert_close(area(boxes).sum(), area(torch.stack(seen)).sum())
        least, most = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
        shared = (most - least).clamp(min=0).prod(-1)
        assert float((shared - shared.diag().diag()).max()) < 1e-6


def patched(piece, model):
    """The box of the original picture under a piece's whole patches, or under those that padding does not reach."""
    side = model.vision.patch_size
    ends = piece.visible[2:] if model.family.rows.whole else piece.size
    end = torch.tensor([0, 0, *(length // side * side for length in ends)], dtype=torch.float64)
    return piece.view.boxes(end)


def within(boxes, box):
    return torch.cat([boxes[..., :2].clamp(box[:2], box[2:]), boxes[..., 2:].clamp(box[:2], box[2:])], -1)


def area(boxes):
    return (boxes[..., 2:] - boxes[..., :2]).prod(-1)


def test_a_picture_of_idefics_2_has_the_same_patches_beside_a_larger_one():
    """Its tower masks a patch into which padding reaches, so such a row is padding, and is no part of a token."""
    small = tiny("idefics2")
    wide, tall = Image.new("RGB", (90, 50)), Image.new("RGB", (64, 130))
    alone = small.model.layout("what is in <image> ?", images=[wide])
    beside = small.model.layout("what is in <image> and in <image> ?", images=[wide, tall])
    assert alone.regions[0].shape == beside.regions[0].shape
    staged = small.model.vision.staged
    state, features = staged.embed([wide, tall]), staged.forward([wide, tall])
    padding = (~beside.patches.of_kind("patch")).nonzero().flatten()
    assert len(padding)
    hidden = state.hidden.flatten(0, 1).clone()
    hidden[padding] = 10.0 * torch.arange(hidden.shape[-1])
    edited = state.replace(hidden=hidden.view(state.hidden.shape))
    assert torch.equal(staged.merge(staged.encode(edited)), features)


def test_sizes_beside_what_says_them_are_refused():
    shown = Image.new("RGB", (90, 50))
    for name in ("gemma3", "llava_next", "mllama"):
        model = tiny(name).model
        with pytest.raises(InputError, match="the pictures themselves were passed"):
            model.layout(tiny(name).row.placeholder + " ?", images=[shown], sizes=[(40, 50)])
    for name, says in (("mllama", "of other proportions than its size"), ("llava_next", "leave out `sizes`")):
        small = tiny(name)
        encoding = small.processor(text=small.row.placeholder + " ?", images=[[shown]], return_tensors="pt")
        with pytest.raises(InputError, match=says):
            small.model.layout(encoding, sizes=[(50, 90)])


def test_what_says_nothing_of_places_is_refused():
    small = tiny("llava")
    with pytest.raises(InputError, match="`nonsense=` says nothing of where a patch is"):
        small.model.layout("<image> ?", images=[Image.new("RGB", (90, 50))], nonsense=3)


def test_frames_apart_have_boxes_where_the_videos_size_is_known():
    small = tiny("llava_onevision")
    film = torch.zeros(4, 3, 50, 90, dtype=torch.uint8)
    layout = small.model.video_layout("what is in <video> ?", videos=[film], sizes=[(90, 50)])
    assert layout.unsourced is None
    assert len(layout.tokens_in((0, 0, 90, 50))) == len(layout.tokens) - 1
