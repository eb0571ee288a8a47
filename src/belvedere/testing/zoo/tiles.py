"""Wrappers that cut a picture into tiles: as many rows in the tower, and newlines among the image tokens."""

from functools import partial
from typing import Any

import torch
from transformers import LlavaNextConfig, LlavaOnevisionConfig

from belvedere.testing import tiling_processors as processors
from belvedere.testing.encodings import IMAGE_TOKEN, VIDEO_TOKEN, framed_inputs, words
from belvedere.testing.row import Row
from belvedere.testing.zoo.llava import LAST
from belvedere.testing.zoo.text import llama, qwen2
from belvedere.testing.zoo.towers import CLIP, clip, siglip

#: Height and width of each picture before it is cut, and how many tiles of 32 pixels it becomes.
SIZES, TILES = [(20, 100), (64, 14), (60, 60)], (3, 3, 5)
PINPOINTS = [[32, 64], [64, 32], [64, 64]]


def prompts(pictures: tuple[int, ...]) -> torch.Tensor:
    """Token ids of two prompts, two pictures in the first and one in the second, the shorter padded on the left."""
    shown = [[3, *[IMAGE_TOKEN] * count, 4] for count in pictures]
    first = [*words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(4, 3)]
    second = [*words(5, 4), *shown[2], *words(3, 5)]
    width = max(len(first), len(second))
    return torch.tensor([[0] * (width - len(ids)) + ids for ids in (first, second)])


def tiled_inputs(pictures: tuple[int, ...], tiles: tuple[int, ...] = TILES, **beside: Any) -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, tiles padded to one number."""
    made = torch.Generator().manual_seed(0)
    ids = prompts(pictures)
    pixels = torch.randn(3, max(tiles), 3, 32, 32, generator=made)
    for one, real in zip(pixels, tiles, strict=True):
        one[real:] = 0
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": pixels,
        "image_sizes": torch.tensor(SIZES),
        **beside,
    }


def llava_next() -> LlavaNextConfig:
    return LlavaNextConfig(
        vision_config=clip(), text_config=llama(), image_token_index=IMAGE_TOKEN, image_grid_pinpoints=PINPOINTS
    )


def llava_onevision(**given: Any) -> LlavaOnevisionConfig:
    return LlavaOnevisionConfig(
        vision_config=siglip(),
        text_config=qwen2(),
        image_token_index=IMAGE_TOKEN,
        video_token_index=VIDEO_TOKEN,
        image_grid_pinpoints=PINPOINTS,
        **given,
    )


def llava_onevision_scaled() -> LlavaOnevisionConfig:
    return llava_onevision(vision_aspect_ratio="anyres_max_2")


#: By hand: 16 patches of the whole picture, then the rows of patches that show it, with a newline after each.
NEXT = (16 + 2 * 9, 16 + 8 * 3, 16 + 8 * 9)
#: Where only a prompt's only picture is cut.
LONE = (16 + 1, 16 + 1, 16 + 8 * 9)
#: Past twice a tile's 16 patches by more than a fifth, the tiles' rows are scaled down: 8 x 8 by 1.41 is 5 x 5.
SCALED = (16 + 2 * 9, 16 + 8 * 3, 16 + 5 * 6)


def filmed() -> dict[str, torch.Tensor]:
    """A video of two frames of 4 x 4 patches, each scaled to 2 x 2 tokens, and a newline."""
    made = torch.Generator().manual_seed(0)
    return framed_inputs((9,), pixel_values_videos=torch.randn(1, 2, 3, 32, 32, generator=made))


TILED: dict[str, Any] = {"tower": CLIP, "prompts": (2, 1), "tiles": TILES, "projected": "cut"}
ONEVISION: dict[str, Any] = {**TILED, "video": filmed, "lone": "only a prompt's only picture is cut into tiles"}

ROWS: dict[str, Row] = {
    "llava_next": Row(
        config=llava_next,
        inputs=partial(tiled_inputs, NEXT),
        pictures=NEXT,
        processor=processors.next_,
        **TILED,
        **LAST,
    ),
    "llava_onevision": Row(
        config=llava_onevision,
        inputs=partial(tiled_inputs, LONE, (1, 1, 5), batch_num_images=torch.tensor([2, 1])),
        pictures=LONE,
        processor=processors.onevision,
        **{**ONEVISION, "tiles": (1, 1, 5)},
    ),
    "llava_onevision_scaled": Row(
        config=llava_onevision_scaled,
        inputs=partial(tiled_inputs, SCALED),
        pictures=SCALED,
        processor=partial(processors.onevision, 2),
        **{**ONEVISION, "projected": "mixed"},
    ),
}
