"""What a processor makes of a picture, against the processor itself: how many rectangles, how large, and of what."""

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pixels import NAMES, made, painted, seen, stated

from belvedere.errors import InputError
from belvedere.geometry import cell_boxes, pieces

#: Sizes of pictures: of a toy's order, with lines of one pixel and whole tiles among them.
SIDES = st.one_of(
    st.integers(1, 12), st.integers(12, 150), st.sampled_from([1, 2, 16, 31, 32, 33, 48, 64, 96, 128, 250])
)
SIZES = st.tuples(SIDES, SIDES)
ROUGH = st.tuples(st.integers(10, 160), st.integers(10, 160))
QUICK = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
#: Those whose resizes follow each other, so that a blur is blurred again.
TWICE = {"idefics3", "idefics3 uncut", "llava_next, other thumbnails"}
#: Those that are padded before they are resized, so that the border of the picture is blurred.
BORDERED = {"llava, padded", "llava, padded, by Pillow", "llava_next, other thumbnails"}
#: Those that cut a picture into quarters; one of a single line has two without a pixel.
QUARTERED = {name for name in NAMES if "idefics2" in name and ("cut" in name or "split" in name)}
#: Those that crop what they have cut.
CROPPED = {"llava_next, other thumbnails"}
EACH = pytest.mark.parametrize("name", NAMES)


def own(name, size):
    return pieces(made(name)[0], size, **stated(name))


def really(name, picture):
    """None where the processor takes no such picture."""
    try:
        return seen(name, picture)
    except (RuntimeError, ValueError, ZeroDivisionError):
        return None


@EACH
@settings(QUICK, max_examples=25)
@given(size=SIZES)
def test_every_piece_is_as_large_as_the_processor_makes_it(name, size):
    real = really(name, painted(size))
    assume(real is not None and not (name in QUARTERED and min(size) == 1))
    assert [(one.shape[1], one.shape[0]) for one in real] == [piece.size for piece in own(name, size)]


@EACH
@settings(QUICK, max_examples=6)
@given(size=ROUGH, data=st.data())
def test_an_edge_is_found_where_the_view_says(name, size, data):
    dark, light = really(name, painted(size)), really(name, painted(size, (0, 0, *size)))
    assume(dark is not None)
    x, y = data.draw(st.integers(1, size[0] - 1)), data.draw(st.integers(1, size[1] - 1))
    beyond_x, beyond_y = seen(name, painted(size, (x, 0, *size))), seen(name, painted(size, (0, y, *size)))
    for piece, none, every, right, below in zip(own(name, size), dark, light, beyond_x, beyond_y, strict=True):
        torch.testing.assert_close(every - none, coverage(piece), atol=0.5 if name in BORDERED else 0.01, rtol=0)
        left, top, right_end, bottom_end = piece.visible
        if (area := (right_end - left) * (bottom_end - top)) == 0:
            continue
        # Summed over a step, what a resize blurs cancels: the darkness before the edge is as wide as its distance.
        found = torch.tensor([left, top]) + torch.stack([(every - right).sum(), (every - below).sum()]) / area * (
            torch.tensor([right_end - left, bottom_end - top])
        )
        said = torch.tensor([x, y]) * torch.tensor(piece.view.scale) - torch.tensor(piece.view.offset)
        said = said.clamp(torch.tensor([left, top]), torch.tensor([right_end, bottom_end]))
        torch.testing.assert_close(found.double(), said.double(), atol=blur(name, piece), rtol=0)


def blur(name, piece):
    """How far an edge may be off, in the tower's pixels: least where nothing is resized, most where it is twice."""
    if name in TWICE:
        return 0.75
    return 0.001 if piece.view.scale == (1, 1) else 0.25


def coverage(piece):
    """How much of each pixel of a piece shows the picture."""
    left, top, right, bottom = piece.visible
    across, down = torch.arange(piece.size[0]).float(), torch.arange(piece.size[1]).float()
    columns = ((across + 1).clamp(max=right) - across.clamp(min=left)).clamp(0, 1)
    rows = ((down + 1).clamp(max=bottom) - down.clamp(min=top)).clamp(0, 1)
    return rows[:, None] * columns


@EACH
@settings(QUICK, max_examples=40)
@given(size=SIZES)
def test_tiles_show_the_whole_picture_once(name, size):
    try:
        every = own(name, size)
    except InputError:
        assume(False)
    tiles = [piece for piece in every if piece.kind == "tile"]
    assert len(every) == 1 if not tiles else len([piece for piece in every if piece.kind == "thumbnail"]) <= 1
    assert all(piece.kind == "picture" for piece in every) or tiles
    assert len({(piece.row, piece.column) for piece in tiles}) == len(tiles)
    for piece in every:
        if piece.kind == "thumbnail" and name not in CROPPED:
            torch.testing.assert_close(source(piece), torch.tensor([0, 0, *size]).double(), atol=1e-6, rtol=0)
    if tiles and name not in CROPPED:
        end = torch.tensor([0, 0, *size]).double()
        tiled(torch.stack([source(piece) for piece in tiles]), end)
        cells = torch.cat([piece.view.boxes(cell_boxes(2, 3, piece.size)) for piece in tiles]).view(-1, 2, 2)
        tiled(cells.clamp(end[:2], end[2:]).flatten(1), end)


@EACH
@settings(QUICK, max_examples=10)
@given(size=SIZES, rows=st.integers(1, 5), columns=st.integers(1, 5))
def test_the_cells_of_a_piece_tile_what_it_shows(name, size, rows, columns):
    try:
        every = own(name, size)
    except InputError:
        assume(False)
    for piece in every:
        end = torch.tensor([0, 0, *piece.size]).double()
        tiled(piece.view.boxes(cell_boxes(rows, columns, piece.size)), piece.view.boxes(end))
        left, top, right, bottom = piece.visible
        if left == right or top == bottom:
            continue
        box = source(piece)
        inside = torch.tensor([0, 0, *size]).double()
        assert bool((box[:2] >= inside[:2] - 1e-6).all() and (box[2:] <= inside[2:] + 1e-6).all())
        # A side that is padded shows the picture to its end; only a crop leaves some of it out.
        seen_box = torch.tensor(piece.visible, dtype=torch.float64)
        if piece.kind == "picture":
            assert bool(((box - inside).abs() < 1e-6).logical_or((seen_box - end).abs() < 1e-6).all())


def source(piece):
    """The box of the original picture that a piece shows."""
    return piece.view.boxes(torch.tensor(piece.visible, dtype=torch.float64))


def tiled(boxes, box):
    """Boxes fill a box without gap or overlap: none leaves it, no two share area, and their areas add up to its own."""
    slack = 1e-6 * float(box.abs().max())
    assert bool((boxes[:, :2] >= box[:2] - slack).all() and (boxes[:, 2:] <= box[2:] + slack).all())
    width, height = (boxes[:, 2:] - boxes[:, :2]).unbind(-1)
    torch.testing.assert_close((width * height).sum(), (box[2] - box[0]) * (box[3] - box[1]))
    least, most = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    shared = (most - least).clamp(min=0).prod(-1)
    assert float((shared - shared.diag().diag()).max()) <= slack * float(box.abs().max())
