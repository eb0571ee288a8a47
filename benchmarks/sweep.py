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

An ablation of the same cells by zero, and a knockout that cuts the last position's edge to each of these positions in
each block, are held against one ``model.trace`` per cell as well.

On the two trained checkpoints of the package, whose forward takes a few milliseconds, and on a random model in LLaVA's
shape of 150M parameters with 300 image tokens, of which every 20th position is swept on every block. The slow ways run
an even share of the cells (`share`), and their time is scaled to all of them; the sweep by `patch` is whole, with its
runs of the clean and the corrupt input and its trial. The ways take turns, and each round gives one ratio. FLOPs are
counted by ``torch.utils.flop_counter``, which no load of the machine moves. In every round the results are compared.
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
from belvedere.experiments import Metric, PatchResult, ablate, knockout, logit_difference, patch

VALUE = "layers.layer_output"
IMAGE_TOKEN, SIDE, PATCHES = 5, 16, 300


@dataclass
class Case:
    """A model with a clean and a corrupt input.

    Args:
        name: What is printed.
        model: The model.
        clean: The clean input.
        corrupt: The corrupt one.
        metric: What is measured.
        step: Every how many positions are swept.
        every: The slow ways run one of so many cells.
    """

    name: str
    model: StandardizedTransformer
    clean: dict[str, Any]
    corrupt: dict[str, Any]
    metric: Metric
    step: int = 1
    every: int = 4

    @property
    def positions(self) -> range:
        """What is swept."""
        return range(0, self.clean["input_ids"].shape[1], self.step)

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Blocks and positions that the slow ways run."""
        every = [(block, position) for block in range(self.model.num_layers) for position in self.positions]
        return every[:: self.every]


def trained(name: str) -> Case:
    """A checkpoint of the package and a pair of its scenes."""
    model = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
    scenes = shapes.pair(0, checkpoint=name, images=1)
    clean, corrupt = (dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes)
    words = [model.tokenizer(s.answer, add_special_tokens=False)["input_ids"][0] for s in scenes]
    return Case(name, model, clean, corrupt, logit_difference(*words))


def random() -> Case:
    """LLaVA's shape, 150M parameters, three pictures of 10 x 10 patches as 300 image tokens."""
    tower = CLIPVisionConfig(
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=8,
        num_attention_heads=8,
        image_size=140,
        patch_size=14,
    )
    text = LlamaConfig(
        hidden_size=768, intermediate_size=2048, num_hidden_layers=16, num_attention_heads=12, vocab_size=8192
    )
    torch.manual_seed(0)
    config = LlavaConfig(vision_config=tower, text_config=text, image_token_id=IMAGE_TOKEN)
    module = LlavaForConditionalGeneration(config).eval()
    ids = torch.tensor([[1, *range(10, 16), *[IMAGE_TOKEN] * 300, *range(20, 32)]])
    made = torch.Generator().manual_seed(1)
    clean, corrupt = (
        {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": torch.randn(3, 3, 140, 140, generator=made),
        }
        for _ in range(2)
    )
    model = StandardizedTransformer(module)
    return Case("random-llava", model, clean, corrupt, logit_difference(9, 20), step=20, every=15)


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
def ablated(case: Case) -> Tensor:
    """One trace per ablated cell."""
    model, scores = case.model, []
    for block, position in case.cells:
        with model.trace(**case.clean):
            stream = model.layers[block].layer_output.clone()
            stream[:, position] = 0
            model.layers[block].layer_output = stream
            logits = nnsight.save(model.logits[:, -1])
        scores.append(case.metric(logits))
    return torch.cat(scores)


def cuts(case: Case) -> tuple[list[int], list[tuple[int, int]]]:
    """The blocks with a pattern, and each cut by block and position."""
    having = [number for number, layer in enumerate(case.model.layers) if "self_attn" in vars(layer)]
    return having, [(block, position) for block in having for position in case.positions[:-1]]


@torch.no_grad()
def cut(case: Case) -> Tensor:
    """One trace per edge that is cut."""
    model, scores = case.model, []
    for block, position in cuts(case)[1][:: case.every]:
        with model.trace(**case.clean):
            host = model.layers[block].self_attn
            pattern = host.attention_probabilities.clone()
            pattern[:, :, -1, position] = 0
            pattern[:, :, -1] /= pattern[:, :, -1].sum(-1, keepdim=True)
            host.attention_probabilities = pattern
            logits = nnsight.save(model.logits[:, -1])
        scores.append(case.metric(logits))
    return torch.cat(scores)


def by_ablate(case: Case) -> Tensor:
    """The ablation."""
    return ablate(case.model, case.clean, VALUE, case.metric, positions=case.positions, progress=False).raw.flatten()


def by_knockout(case: Case) -> Tensor:
    """The knockout, by block and then by position."""
    last = case.clean["input_ids"].shape[1] - 1
    edges = {str(position): ([last], [position]) for position in case.positions[:-1]}
    given = (case.model, case.clean, edges, case.metric)
    return knockout(*given, layers=cuts(case)[0], window=1, progress=False).raw.T.flatten()


def others(case: Case, rounds: int, clock: Callable[[], float]) -> None:
    """Ablation and knockout."""
    for name, fast, slow in (("ablation", by_ablate, ablated), ("knockout", by_knockout, cut)):
        ratios, apart = list[float](), 0.0
        for round in range(rounds + 1):
            ours, scores = timed(fast, case, clock)
            seconds, theirs = timed(slow, case, clock)
            apart = max(apart, float((scores[:: case.every] - theirs).abs().max()))
            if round or not rounds:
                ratios.append(seconds * len(scores) / len(theirs) / ours)
        counted = flops(lambda slow=slow: slow(case)) * len(scores) / len(theirs) / flops(lambda fast=fast: fast(case))
        shown = f"{statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})"
        print(f"{'':<16}{name}, {len(scores)} cells: trace / sweep {shown}, FLOPs {counted:.1f}, ", end="")
        print(f"largest difference {apart:.1e}", flush=True)


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
    return patch(case.model, case.clean, case.corrupt, VALUE, case.metric, positions=case.positions, progress=False)


def timed(run: Callable[[Case], Any], case: Case, clock: Callable[[], float]) -> tuple[float, Any]:
    start = clock()
    result = run(case)
    return clock() - start, result


def flops(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def run(case: Case, rounds: int, clock: Callable[[], float]) -> None:
    total = len(case.positions) * case.model.num_layers
    size = sum(held.numel() for held in case.model._module.parameters()) / 1e6
    ratios: dict[str, list[float]] = {"trace": [], "hooks": []}
    apart = 0.0
    for round in range(rounds + 1):
        ours, result = timed(by_patch, case, clock)
        for name, way in (("trace", by_traces), ("hooks", by_hooks)):
            seconds, scores = timed(way, case, clock)
            apart = max(apart, float((result.raw.flatten()[:: case.every] - scores).abs().max()))
            # The first round warms up.
            if round or not rounds:
                ratios[name].append(seconds * total / len(scores) / ours)
    print(f"{case.name:<16}{size:.1f}M parameters, {total} cells, {result.settings['cells']}", flush=True)
    for name, found in ratios.items():
        print(f"{'':<16}{name} / sweep {statistics.median(found):.1f} ({min(found):.1f}-{max(found):.1f})", flush=True)
    with torch.no_grad():
        whole = flops(lambda: case.model._module(**case.corrupt)) * total
    print(f"{'':<16}FLOPs, hooks / sweep {whole / flops(lambda: by_patch(case)):.1f}", flush=True)
    print(f"{'':<16}largest difference {apart:.1e}, of {abs(result.clean - result.corrupt):.1f} apart", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds on the trained checkpoints, after one to warm up")
    parser.add_argument("--only", choices=[*shapes.CHECKPOINTS, "random-llava"], action="append", help="one model")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="what torch may use")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds and not the wall's, for a machine that is busy")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.process_time if given.cpu else time.perf_counter
    logging.set_verbosity_error()
    print(f"torch {torch.__version__}; {clock.__name__}, {given.threads} threads")
    for name in given.only or [*shapes.CHECKPOINTS, "random-llava"]:
        case, rounds = (random(), 0) if name == "random-llava" else (trained(name), given.rounds)
        run(case, rounds, clock)
        others(case, rounds, clock)


if __name__ == "__main__":
    main()
