"""What a call changes of a processor's pieces: other pictures beside one, settings of its own; and what is refused."""

import numpy as np
import pytest
import torch
from PIL import Image
from pixels import painted
from transformers import CLIPImageProcessor, CLIPImageProcessorPil, PixtralImageProcessor, ViTImageProcessor

from belvedere.errors import InputError
from belvedere.geometry import cell_boxes, pieces
from belvedere.testing import processors, tiling_processors

SIZES = [(60, 20), (31, 90), (48, 48), (100, 7)]


def encoded(processor, pictures, **call):
    return processor(pictures, return_tensors="pt", input_data_format="channels_last", **call)["pixel_values"]


@pytest.mark.parametrize("name", ["pixtral", "idefics2", "idefics2 cut", "idefics3", "clip, within"])
def test_pictures_of_one_call_are_padded_to_the_largest(name):
    processor = {
        "pixtral": lambda: processors.mistral().image_processor,
        "idefics2": tiling_processors.idefics2,
        "idefics2 cut": lambda: tiling_processors.idefics2(True),
        "idefics3": tiling_processors.idefics3,
        "clip, within": lambda: CLIPImageProcessor(
            size={"max_height": 30, "max_width": 40}, do_center_crop=False, do_pad=True
        ),
    }[name]()
    images = getattr(processor, "image_processor", processor)
    dark = [painted(size) for size in SIZES]
    nested = "idefics" in name
    none = encoded(images, [[one] for one in dark] if nested else dark)
    for number, size in enumerate(SIZES):
        light = [painted(size, (0, 0, *size)) if other == number else one for other, one in enumerate(dark)]
        every = encoded(images, [[one] for one in light] if nested else light)
        changed = (every - none)[number].reshape(-1, *every.shape[-3:])[:, 0] > 0.01
        own = pieces(processor, size, batch=SIZES)
        assert {piece.size for piece in own} == {(every.shape[-1], every.shape[-2])}
        for piece, seen in zip(own, changed, strict=False):
            left, top, right, bottom = piece.visible
            assert seen[int(top) : int(bottom), int(left) : int(right)].all()
            assert int(seen.sum()) == (right - left) * (bottom - top)


def test_a_size_for_padding_goes_before_the_largest_picture():
    processor = CLIPImageProcessor(size={"height": 20, "width": 30}, do_center_crop=False, do_pad=True)
    pad = {"height": 32, "width": 48}
    assert encoded(processor, [painted((40, 40))], pad_size=pad).shape[-2:] == (32, 48)
    [piece] = pieces(processor, (40, 40), pad_size=pad)
    assert (piece.size, piece.visible) == ((48, 32), (0, 0, 30, 20))


@pytest.mark.parametrize("size", [(64, 32), (32, 64), (41, 96)])
def test_of_several_pictures_of_a_prompt_onevision_cuts_none(size):
    images = tiling_processors.onevision().image_processor
    beside = painted((32, 32))
    none, every = (encoded(images, [[one, beside]])[0, 0, 0] for one in (painted(size), painted(size, (0, 0, *size))))
    [piece] = pieces(images, size, alone=False)
    assert piece.kind == "picture"
    assert piece.size == (32, 32)
    shown = (every - none) / (every - none)[16, 16]
    left, top, right, bottom = piece.visible
    assert float(shown.sum()) == pytest.approx((right - left) * (bottom - top), rel=0.03)
    middle = (
        (shown * torch.arange(32)).sum() / shown.sum() + 0.5,
        (shown.T * torch.arange(32)).sum() / shown.sum() + 0.5,
    )
    assert [float(one) for one in middle] == pytest.approx([(left + right) / 2, (top + bottom) / 2], abs=0.2)
    assert len(pieces(images, size)) > 1


@pytest.mark.parametrize("fold", [1, 2])
def test_a_whole_pixtral_keeps_whole_folds(fold):
    whole = processors.mistral(fold)
    real = whole(images=[Image.fromarray(painted((61, 20)))], text="<image>", return_tensors="pt")["pixel_values"]
    [piece] = pieces(whole, (61, 20))
    assert piece.size == (real.shape[-1], real.shape[-2])
    assert piece.size[1] % (8 * fold) == 0


def test_a_whole_processor_says_what_it_asks_in_every_call():
    whole = tiling_processors.internvl()
    assert [piece.kind for piece in pieces(whole, (64, 32))] == ["tile", "tile", "thumbnail"]
    assert [piece.kind for piece in pieces(whole.image_processor, (64, 32))] == ["picture"]
    assert [piece.kind for piece in pieces(whole, (64, 32), crop_to_patches=False)] == ["picture"]


@pytest.mark.parametrize(
    "given",
    [
        {"size": {"height": 40, "width": 24}},
        {"size": 40},
        {"crop_size": 20},
        {"do_resize": False},
        {"do_center_crop": False},
        {"do_resize": False, "crop_size": {"height": 90, "width": 10}},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [CLIPImageProcessor, CLIPImageProcessorPil])
def test_a_call_may_set_it_otherwise(kind, given):
    processor = kind(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    real = encoded(processor, [painted((61, 47))], **given)
    [piece] = pieces(processor, (61, 47), **given)
    assert piece.size == (real.shape[-1], real.shape[-2])


@pytest.mark.parametrize("kind", [CLIPImageProcessor, CLIPImageProcessorPil])
@pytest.mark.parametrize("size", [(20, 21), (21, 20), (35, 36), (36, 35), (21, 36), (36, 21)])
@pytest.mark.parametrize("side", [31, 32])
def test_without_a_resize_every_pixel_is_where_its_box_says(kind, size, side):
    processor = kind(do_resize=False, do_normalize=False, do_rescale=False, crop_size={"height": side, "width": side})
    picture = np.arange(1, size[0] * size[1] + 1, dtype=np.int32).reshape(size[1], size[0], 1).repeat(3, -1)
    seen = encoded(processor, [torch.from_numpy(picture.astype(np.float32)).numpy()])[0, 0]
    [piece] = pieces(processor, size)
    boxes = piece.view.boxes(cell_boxes(side, side, piece.size)).long().view(side, side, 4)
    for row in range(side):
        for column in range(side):
            left, top = boxes[row, column, :2].tolist()
            inside = 0 <= left < size[0] and 0 <= top < size[1]
            assert float(seen[row, column]) == (picture[top, left, 0] if inside else 0)


def test_a_class_without_work_of_its_own_needs_no_entry():
    assert pieces(ViTImageProcessor(), (30, 60))[0].size == (224, 224)

    class Mine(PixtralImageProcessor):
        """Derived, and changes nothing."""

    assert pieces(Mine(), (640, 480)) == pieces(PixtralImageProcessor(), (640, 480))


def test_work_that_is_not_known_is_refused():
    class Other(CLIPImageProcessor):
        def resize(self, image, *args, **given):
            return image

    with pytest.raises(InputError, match=r"what Other does to a picture is not known; pass .* and Cohere2Vision"):
        pieces(Other(), (10, 10))


def test_a_setting_that_is_not_known_is_refused():
    processor = CLIPImageProcessor()
    with pytest.raises(InputError, match=r"CLIPImageProcessor is set to size=.*longest_edge.*; pass boxes of your own"):
        pieces(processor, (10, 10), size={"longest_edge": 20})


@pytest.mark.parametrize(
    ("make", "size", "why"),
    [
        (processors.qwen, (1, 300), "takes no picture of 1 x 300"),
        (processors.llava, (0, 3), "would make 0 x 3 pixels"),
    ],
    ids=["qwen", "llava"],
)
def test_a_picture_that_the_processor_does_not_take_is_refused(make, size, why):
    with pytest.raises(InputError, match=why):
        pieces(make(), size)
    if min(size):
        with pytest.raises(ValueError, match="aspect ratio"):
            encoded(make().image_processor, [painted(size)])


def test_what_every_wrapper_is_shown_is_known():
    import transformers
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

    from belvedere.families import known

    kinds = {kind for name in known("wrappers") for kind in IMAGE_PROCESSOR_MAPPING_NAMES.get(name, {}).values()}
    assert len(kinds) > 30
    for kind in kinds - {None}:
        call = {} if "Gemma3" not in kind else {"do_pan_and_scan": False}
        assert pieces(getattr(transformers, kind)(), (640, 480), **call)
