"""The tiles and image tokens of each picture, read off a prompt, are those that the processor makes of it alone."""

from random import Random
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from belvedere.families.facts import fixed
from belvedere.families.runs import by_last_tag, by_run
from belvedere.testing import tiny

CUT = ("aya_vision", "cohere2_vision", "idefics3", "internvl", "lfm2_vl", "llama4", "llava_next")
CONFIG = SimpleNamespace(image_token_id=5, tokens=2)


@pytest.fixture(scope="module", params=CUT)
def cutting(request):
    return tiny(request.param)


def encoded(small, between, images):
    prompt = between.join([small.row.placeholder] * len(images)) + " ?"
    return dict(small.processor(text=prompt, images=[images], return_tensors="pt"))


def tiles(pixels):
    """The tiles of an only picture, which stand in the stack of their prompt or on their own."""
    return pixels.shape[1] if pixels.ndim == 5 else len(pixels)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("between", ["", " and "])
def test_pictures_of_any_size_are_told_apart(cutting, seed, between):
    sizes = [
        (Random(seed + 10 * number).randint(12, 150), Random(-seed - number).randint(12, 150)) for number in (1, 2, 3)
    ]
    images = [Image.new("RGB", size, (200, 30, 30)) for size in sizes]
    shown = cutting.model.pictures(encoded(cutting, between, images))
    alone = [encoded(cutting, between, [image]) for image in images]
    token = cutting.model.placeholder("image")
    assert shown.tokens == tuple(int(one["input_ids"].eq(token).sum()) for one in alone)
    assert shown.tiles == tuple(tiles(one["pixel_values"]) for one in alone)
    assert sum(shown.tokens) == shown.placeholders


@pytest.mark.parametrize("rule", [by_run(fixed("tokens"), apart=1), by_last_tag(fixed("tokens"))])
def test_a_prompt_that_was_cut_off_has_the_tokens_of_every_tile(rule):
    ids = torch.tensor([[9, 3, 8, 5, 5, 8, 5, 5, 3, 9, 8, 5]])
    assert rule(CONFIG, {"input_ids": ids, "pixel_values": torch.ones(3, 3, 8, 8)}, 1, 1) == [(1, 2)] * 3


def test_pictures_of_several_prompts_are_told_apart_in_each():
    ids = torch.tensor([[8, 5, 5, 8, 5, 5, 9, 9, 8, 5, 5], [0] * 9 + [5, 5]])
    given = {"input_ids": ids, "pixel_values": torch.ones(4, 3, 8, 8)}
    assert by_run(fixed("tokens"), apart=1)(CONFIG, given, 1, 1) == [(2, 4), (1, 2), (1, 2)]


def test_a_whole_picture_ends_the_tiles_of_each():
    ids = torch.tensor([[3, 11, 5, 5, 3, 12, 5, 5, 3, 10, 5, 5, 3, 3, 10, 5, 5, 3, 3, 11, 5, 5, 3, 10, 5, 5, 3]])
    given = {"input_ids": ids, "pixel_values": torch.ones(1, 6, 3, 8, 8)}
    assert by_last_tag(fixed("tokens"))(CONFIG, given, 1, 1) == [(3, 6), (1, 2), (2, 4)]
