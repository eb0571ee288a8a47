"""Boxes of a model's own patches and tokens, found by lighting them up."""

import pytest
import torch
from PIL import Image

from belvedere import InputError, StandardizedTransformer, geometry
from belvedere.experiments import patch_boxes, token_boxes
from belvedere.shapes import build

SIZES = {"shapes-llava": [(64, 64), (150, 80)], "shapes-qwen3_5": [(112, 96), (200, 150)]}
PROMPTS = {
    "shapes-llava": "USER: <image>\nwhat ASSISTANT:",
    "shapes-qwen3_5": "<|vision_start|><|image_pad|><|vision_end|>what",
}
_models = {}


def model_of(name):
    if name not in _models:
        torch.manual_seed(0)
        _models[name] = StandardizedTransformer(build.model(name).eval(), processor=build.processor(name))
    return _models[name]


def dotted(size, box):
    """A black picture with a light dot in the middle of a box."""
    left, top, right, bottom = box
    across, down = round((left + right) / 2), round((top + bottom) / 2)
    image = Image.new("RGB", size)
    image.paste((255, 255, 255), (across - 1, down - 1, across + 2, down + 2))
    return image


@pytest.mark.parametrize(("name", "size"), [(name, size) for name in SIZES for size in SIZES[name]])
def test_a_dot_changes_the_patch_and_the_token_that_its_box_says(name, size):
    model = model_of(name)
    shown = {"text": PROMPTS[name], "images": [Image.new("RGB", size)]}
    patches, tokens = patch_boxes(model, shown, size), token_boxes(model, shown, size)

    def embeddings(image):
        with model.trace(PROMPTS[name], images=[image]):
            held = model.vision.patch_embeddings.save()
        return held[0]

    plain = embeddings(Image.new("RGB", size))
    assert plain.shape[0] == len(patches)
    for number in (0, 9, len(patches) - 1):
        moved = (embeddings(dotted(size, patches[number].tolist())) - plain).norm(dim=-1)
        assert int(moved.argmax()) == number
    over = [int(geometry.boxes_over(patches, box).sum()) for box in tokens.tolist()]
    assert over == [len(patches) // len(tokens)] * len(tokens)


def test_a_picture_that_is_not_there_is_refused():
    model = model_of("shapes-llava")
    shown = {"text": PROMPTS["shapes-llava"], "images": [Image.new("RGB", (64, 64))]}
    with pytest.raises(InputError, match="there is no picture 1; the input shows 1"):
        patch_boxes(model, shown, (64, 64), picture=1)


def test_rows_of_a_padded_tower_are_counted_as_the_tower_has_them():
    """Two pictures of different sizes, the smaller padded to the larger: its padding is no position to sweep."""
    from belvedere.experiments.pairs import Pair
    from belvedere.experiments.sites import Site
    from belvedere.testing import tiny

    small = tiny("idefics2")
    shown = {"text": small.prompt, "images": small.images}
    pair, site = Pair.align(small.model, shown, shown), Site.find(small.model, "vision.layers.layer_output", [0])
    with small.model.trace(small.prompt, images=small.images):
        stream = small.model.vision.layers[0].layer_output.save()
    assert pair.length(small.model, site) == stream[..., 0].numel()
    layout = small.model.layout(small.prompt, images=small.images)
    assert pair.usual(small.model, site) == layout.patches.of_kind("patch").nonzero().flatten().tolist()
    assert len(pair.usual(small.model, site)) < pair.length(small.model, site)
