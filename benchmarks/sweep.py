"""What a patching sweep costs, against one whole forward per cell: in time, and in counted FLOPs.

A sweep over block x position of the residual stream: every block, every position of the prompt. It is run by `patch`,
and for each cell by one forward, in two ways::

    python benchmarks/sweep.py
    python benchmarks/sweep.py --only shapes-llava --rounds 7

trace
    One ``model.trace`` per cell that writes ``layers[k].layer_output``.
hooks
    One forward of the same module per cell with one PyTorch hook on one block, which is what TransformerLens' patching
    does.

On the two trained checkpoints of the package, whose forward takes a few milliseconds, and on a random model in LLaVA's
shape of 150M parameters with 300 image tokens. Where all cells by one forward each would take minutes, every eighth is
run, spread evenly over blocks and positions, and the sum is scaled; the sweep by `patch` is always whole. The ways take
turns, and each round gives one ratio. FLOPs are counted by ``torch.utils.flop_counter``, which no load of the machine
moves. Before any time is taken, the results of all three are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import nnsight
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
from transformers.utils import logging

from belvedere import StandardizedTransformer, shapes
from belvedere.experiments import Metric, PatchResult, logit_difference, patch

VALUE = "layers.layer_output"
IMAGE_TOKEN, SIDE, PATCHES = 5, 16, 300


@dataclass
class Case:
    """A model with a clean and a corrupt input, and the share of cells that the slow ways run."""

    name: str
    model: StandardizedTransformer
    clean: dict[str, Any]
    corrupt: dict[str, Any]
    metric: Metric
    every: int = 1

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Blocks and positions that the slow ways run."""
        length = self.clean["input_ids"].shape[1]
        return [(block, position) for block in range(self.model.num_layers) for position in range(length)][
            :: self.every
        ]


def trained(name: str) -> Case:
    """A checkpoint of the package and a pair of its scenes."""
    model = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
    scenes = shapes.pair(0, checkpoint=name, images=1)
    clean, corrupt = (dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes)
    words = [model.tokenizer(s.answer, add_special_tokens=False)["input_ids"][0] for s in scenes]
    return Case(name, model, clean, corrupt, logit_difference(*words))


def random() -> Case:
    """LLaVA's shape, 150M parameters, one picture of 15 x 20 patches as 300 image tokens."""
    tower = CLIPVisionConfig(
        hidden_size=512, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=8, image_size=240, patch_size=14
    )
    text = LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=16,
        num_attention_heads=12,
        num_key_value_heads=12,
        vocab_size=8192,
    )
    config = LlavaConfig(
        vision_config=tower, text_config=text, image_token_id=IMAGE_TOKEN, vision_feature_select_strategy="full"
    )
    torch.manual_seed(0)
    # 17 x 17 patches and a CLS row are 290 tokens; ten more words make 300 and the prompt around them.
    module = LlavaForConditionalGeneration(config).eval()
    shown = (240 // 14) ** 2 + 1
    ids = torch.tensor([[1, *range(10, 16), *[IMAGE_TOKEN] * shown, *range(20, 32)]])
    made = torch.Generator().manual_seed(1)
    sides = [
        {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": torch.randn(1, 3, 240, 240, generator=made),
        }
        for _ in range(2)
    ]
    return Case("random-llava", StandardizedTransformer(module), *sides, logit_difference(9, 20), every=97)


@torch.no_grad()
def by_traces(case: Case) -> Tensor:
    """One trace per cell."""
    model = case.model
    last = case.clean["input_ids"].shape[1] - 1
    with model.trace(**case.clean):
        clean = nnsight.save([layer.layer_output.clone() for layer in model.layers])
    scores = []
    for block, position in case.cells:
        with model.trace(**case.corrupt):
            stream = model.layers[block].layer_output.clone()
            stream[:, position] = clean[block][:, position]
            model.layers[block].layer_output = stream
            logits = nnsight.save(model.logits[:, last])
        scores.append(case.metric(logits))
    return torch.cat(scores)


@torch.no_grad()
def by_hooks(case: Case) -> Tensor:
    """One hooked forward per cell."""
    module, blocks = case.model._module, [layer._module for layer in case.model.layers]
    clean: dict[int, Tensor] = {}

    @contextmanager
    def hooked(block: int, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
        handle = blocks[block].register_forward_hook(lambda _module, _args, output: edit(output))
        try:
            yield
        finally:
            handle.remove()

    def keep(block: int) -> Callable[[Tensor], Tensor]:
        return lambda output: clean.setdefault(block, output.clone()) * 1

    def put(block: int, position: int) -> Callable[[Tensor], Tensor]:
        def edit(output: Tensor) -> Tensor:
            output = output.clone()
            output[:, position] = clean[block][:, position]
            return output

        return edit

    for block in range(len(blocks)):
        with hooked(block, keep(block)):
            module(**case.clean)
    scores = []
    for block, position in case.cells:
        with hooked(block, put(block, position)):
            scores.append(case.metric(module(**case.corrupt).logits[:, -1]))
    return torch.cat(scores)


def by_patch(case: Case) -> PatchResult:
    """The sweep."""
    positions = range(case.clean["input_ids"].shape[1])
    return patch(case.model, case.clean, case.corrupt, VALUE, case.metric, positions=positions, progress=False)
