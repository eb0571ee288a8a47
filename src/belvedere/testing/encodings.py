"""Encodings: token ids and pixels with everything that a wrapper needs beside them, made from seeds.

Every encoding has two prompts, so that padding and neighbours are tested; where a wrapper takes pictures of several
sizes it has three pictures of different sizes, two of them in the first prompt.
"""

import torch

__all__ = [
    "IMAGE_TOKEN",
    "VIDEO_TOKEN",
    "framed_inputs",
    "gemma_inputs",
    "llava_inputs",
    "placed",
    "placed_inputs",
    "prefix_inputs",
    "qwen_inputs",
    "sized_inputs",
    "text_inputs",
    "tiled_inputs",
    "video_inputs",
    "words",
]

IMAGE_TOKEN, VIDEO_TOKEN = 5, 6


def words(count: int, seed: int) -> list[int]:
    """Token ids that are neither special nor placeholders."""
    made = torch.Generator().manual_seed(seed)
    return torch.randint(8, 64, (count,), generator=made).tolist()


def text_inputs(rows: int = 2) -> dict[str, torch.Tensor]:
    """Two prompts, the first padded on the left."""
    ids = torch.tensor([words(9, seed) for seed in range(rows)])
    mask = torch.ones_like(ids)
    ids[0, :3], mask[0, :3] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def placed(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """An encoding with positions counted from each row's own first token, for a model that does not count them so."""
    return {**inputs, "position_ids": (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)}


def placed_inputs() -> dict[str, torch.Tensor]:
    """`text_inputs`, `placed`."""
    return placed(text_inputs())


def llava_inputs(tokens: int = 16) -> dict[str, torch.Tensor]:
    """Two prompts with a picture each, the second with less text and so padded on the left."""
    made = torch.Generator().manual_seed(0)
    picture = [IMAGE_TOKEN] * tokens
    ids = torch.tensor([[1, *words(3, 1), *picture, *words(4, 2)], [0, 0, 1, *words(2, 3), *picture, *words(3, 4)]])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(2, 3, 32, 32, generator=made),
    }


def tiled_inputs(tokens: int, tiles: tuple[int, ...], between: tuple[int, ...] = ()) -> dict[str, torch.Tensor]:
    """Two prompts; two pictures in the first, one in the second, each cut into tiles.

    Args:
        tokens: How many image tokens a tile becomes.
        tiles: How many tiles each picture is cut into.
        between: Token ids that stand between two tiles.
    """
    made = torch.Generator().manual_seed(0)
    tile = [*between, *[IMAGE_TOKEN] * tokens]
    shown = [[3, *(tile * count)[len(between) :], 4] for count in tiles]
    first = [1, *words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(4, 3)]
    second = [1, *words(2, 4), *shown[2], *words(3, 5)]
    width = max(len(first), len(second))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in (first, second)])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(sum(tiles), 3, 32, 32, generator=made),
    }


def gemma_inputs(tokens: int = 16) -> dict[str, torch.Tensor]:
    """LLaVA's two prompts, with the token types that tell a picture's tokens apart."""
    inputs = llava_inputs(tokens)
    return {**inputs, "token_type_ids": (inputs["input_ids"] == IMAGE_TOKEN).long()}


def prefix_inputs() -> dict[str, torch.Tensor]:
    """LLaVA's two prompts, with a suffix of two tokens whose type says that they are to be predicted."""
    inputs = llava_inputs()
    types = torch.zeros_like(inputs["input_ids"])
    types[:, -2:] = 1
    return {**inputs, "token_type_ids": types}


def sized_inputs(fold: int) -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, padded to one size for the tower."""
    made = torch.Generator().manual_seed(0)
    sizes = [(32, 48), (48, 16), (16, 32)]
    shown = [[3, *[IMAGE_TOKEN] * ((h // 8 // fold) * (w // 8 // fold)), 4] for h, w in sizes]
    first = [*words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(4, 3)]
    second = [*words(5, 4), *shown[2], *words(3, 5)]
    ids = torch.tensor([first, [0] * (len(first) - len(second)) + second])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(3, 3, 48, 48, generator=made),
        "image_sizes": torch.tensor(sizes),
    }


def qwen_inputs() -> dict[str, torch.Tensor]:
    """Two prompts; two pictures of different size in the first, one in the second, all in one pack."""
    made = torch.Generator().manual_seed(0)
    grids = [[1, 4, 6], [1, 6, 4], [1, 2, 4]]
    shown = [[3, *[IMAGE_TOKEN] * (t * h * w // 4), 4] for t, h, w in grids]
    first = [*words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(4, 3)]
    second = [*words(5, 4), *shown[2], *words(3, 5)]
    ids = torch.tensor([first, [0] * (len(first) - len(second)) + second])
    patches = sum(t * h * w for t, h, w in grids)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "mm_token_type_ids": (ids == IMAGE_TOKEN).int(),
        "pixel_values": torch.randn(patches, 3 * 2 * 8 * 8, generator=made),
        "image_grid_thw": torch.tensor(grids),
    }


def video_inputs(token: int = VIDEO_TOKEN, *, apart: bool = True) -> dict[str, torch.Tensor]:
    """One prompt with a video of two frames.

    Args:
        token: The video's placeholder.
        apart: Whether a timestamp stands between the frames' placeholders.
    """
    frame = [token] * 6
    ids = torch.tensor([[9, 3, *frame, *[12] * apart, *frame, 4, 10]])
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == token).int() * 2,
        "pixel_values_videos": torch.randn(48, 384, generator=torch.Generator().manual_seed(0)),
        "video_grid_thw": torch.tensor([[2, 4, 6]]),
    }


def framed_inputs(tokens: tuple[int, ...], **shown: torch.Tensor) -> dict[str, torch.Tensor]:
    """One prompt with a video whose frames are rows of their own in the tower.

    Args:
        tokens: The video's placeholders, as many runs as stand apart.
        **shown: The pixels, and what goes beside them.
    """
    runs = [token for count in tokens for token in [12, *[VIDEO_TOKEN] * count]]
    ids = torch.tensor([[9, 3, *runs, 4, 10, 11]])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **shown}
