"""Pairs of encodings for the tiny models in float64, and modules that nnsight never touched."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from belvedere import StandardizedTransformer
from belvedere.testing import build
from belvedere.testing.encodings import IMAGE_TOKEN, words

ANSWER, OTHER = 9, 20


@dataclass
class Rig:
    """A tiny model, the same weights raw, and a clean and a corrupt encoding with two pictures each."""

    name: str
    model: Any
    raw: torch.nn.Module
    clean: dict[str, torch.Tensor]
    corrupt: dict[str, torch.Tensor]
    tower: str
    mixer: str

    def native(self, value: str, layer: int) -> tuple[str, str]:
        """The native module of a value on a block, and whether it is what enters or what leaves it."""
        block = f"{self.tower}.{layer}" if value.startswith("vision.") else f"model.language_model.layers.{layer}"
        name = value.rpartition(".")[2]
        if name.startswith("layer_"):
            return block, name.removeprefix("layer_")
        if name == "mlp_output":
            return f"{block}.mlp", "output"
        if value.startswith("vision."):
            return f"{block}.{self.mixer}", "output"
        linear = hasattr(self.raw.get_submodule(block), "linear_attn")
        return f"{block}.{'linear_attn' if linear else 'self_attn'}", "output"


def llava_encoding(seed):
    picture = [IMAGE_TOKEN] * 16
    ids = torch.tensor([[1, *words(3, 1), *picture, *words(2, 2), *picture, *words(3, 3)]])
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(seed)).double()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels}


def qwen_encoding(seed):
    grids = [[1, 4, 4], [1, 4, 6]]
    shown = [[3, *[IMAGE_TOKEN] * (rows * columns // 4), 4] for _, rows, columns in grids]
    ids = torch.tensor([[*words(3, 1), *shown[0], *words(2, 2), *shown[1], *words(3, 3)]])
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == IMAGE_TOKEN).int(),
        "pixel_values": torch.randn(40, 3 * 2 * 8 * 8, generator=torch.Generator().manual_seed(seed)).double(),
        "image_grid_thw": torch.tensor(grids),
    }


PARTS = {
    "llava": (llava_encoding, "model.vision_tower.encoder.layers", "self_attn"),
    "qwen3_5": (qwen_encoding, "model.visual.blocks", "attn"),
}
_rigs: dict[str, Rig] = {}


def rig_of(name):
    if name not in _rigs:
        encoding, tower, mixer = PARTS[name]
        _rigs[name] = Rig(
            name=name,
            model=StandardizedTransformer(build(name).double()),
            raw=build(name).double(),
            clean=encoding(1),
            corrupt=encoding(2),
            tower=tower,
            mixer=mixer,
        )
    return _rigs[name]


@pytest.fixture(params=list(PARTS))
def rig(request):
    return rig_of(request.param)


@pytest.fixture
def llava_rig():
    return rig_of("llava")


@pytest.fixture
def qwen_rig():
    return rig_of("qwen3_5")
