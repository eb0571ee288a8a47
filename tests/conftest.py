"""Each row of the zoo, built once per session, wrapped and raw."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
import torch
from truth import logits_of

from belvedere import StandardizedTransformer
from belvedere.testing import ROWS, Row, build

# The models are tiny: threads inside a worker would only wait for each other.
torch.set_num_threads(1)


@dataclass
class Checkpoint:
    """One row: the standardized model, and the same weights in a module that nnsight never touched."""

    name: str
    attention: str = "sdpa"
    cache: dict[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> Row:
        return ROWS[self.name]

    @cached_property
    def model(self) -> StandardizedTransformer:
        return StandardizedTransformer(build(self.name, self.attention))

    @cached_property
    def raw(self) -> torch.nn.Module:
        return self.untouched(self.attention)

    @cached_property
    def eager(self) -> torch.nn.Module:
        return self.untouched("eager")

    def untouched(self, attention: str) -> torch.nn.Module:
        module = build(self.name, attention)
        if self.row.forward:
            module.register_forward_pre_hook(
                lambda _, args, given: (args, {**self.row.forward, **given}), with_kwargs=True
            )
        return module

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        return self.row.inputs()

    @cached_property
    def logits(self) -> torch.Tensor:
        with torch.no_grad():
            return logits_of(self.raw(**self.inputs))


_built = {(name, attention): Checkpoint(name, attention) for name in ROWS for attention in ("sdpa", "eager")}


@pytest.fixture(params=list(ROWS))
def checkpoint(request):
    return _built[request.param, "sdpa"]


@pytest.fixture(params=[name for name, row in ROWS.items() if row.tower])
def wrapper(request):
    return _built[request.param, "sdpa"]


@pytest.fixture(params=[name for name, row in ROWS.items() if "image_grid_thw" in row.inputs()])
def packed(request):
    return _built[request.param, "sdpa"]


@pytest.fixture(params=[name for name, row in ROWS.items() if row.tower and not row.cross])
def scattering(request):
    """A wrapper that writes its features over placeholders."""
    return _built[request.param, "sdpa"]


@pytest.fixture(params=[name for name, row in ROWS.items() if row.video is not None])
def filmed(request):
    return _built[request.param, "sdpa"]


@pytest.fixture(params=[(name, attention) for name in ROWS for attention in ("sdpa", "eager")], ids="-".join)
def any_attention(request):
    return _built[request.param]


@pytest.fixture
def llava():
    return _built["llava", "sdpa"]


@pytest.fixture
def qwen():
    return _built["qwen3_5", "sdpa"]


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield
