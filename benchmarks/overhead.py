"""What reading costs: a trace that reads every block, against bare PyTorch hooks that read the same.

Both sides run the same weights on the same encoding: the trace on a standardized model, the hooks on a copy that
nnsight never touched. They take turns, A B A B, so that a machine that slows down slows both, and each turn of both
gives one ratio. The median of the ratios is the figure; the least and the largest say how far to trust it::

    python benchmarks/overhead.py
    python benchmarks/overhead.py --only llava-150m --rounds 50
"""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nnsight
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor, CLIPVisionConfig, LlamaConfig, LlavaConfig
from transformers.utils import logging

import belvedere
from belvedere import StandardizedTransformer

Encoding = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A module, an encoding for it, and the native paths of its blocks."""

    module: torch.nn.Module
    encoding: Encoding
    blocks: tuple[str, str]

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())


def shipped(name: str, *blocks: str) -> Case:
    """A checkpoint of the package and one of its scenes."""
    folder = belvedere.checkpoint(name)
    scene = belvedere.shapes.sample(0, checkpoint=name)
    encoding = AutoProcessor.from_pretrained(folder)(text=scene.prompt, images=scene.images, return_tensors="pt")
    module = AutoModelForImageTextToText.from_pretrained(folder)
    return Case(module=module, encoding=dict(encoding), blocks=(blocks[0], blocks[1]))


def llava_150m() -> Case:
    """A LLaVA of random weights, of a size at which arithmetic outweighs bookkeeping: 289 image tokens, 24 blocks."""
    torch.manual_seed(0)
    tower = CLIPVisionConfig(
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=8,
        image_size=272,
        patch_size=16,
    )
    text = LlamaConfig(
        vocab_size=16000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=12,
        pad_token_id=0,
    )
    config = LlavaConfig(vision_config=tower, text_config=text, image_token_id=5)
    ids = torch.cat([torch.arange(10, 20), torch.full((17 * 17,), 5), torch.arange(20, 40)])[None]
    encoding = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": torch.randn(1, 3, 272, 272),
    }
    module = AutoModelForImageTextToText.from_config(config)
    return Case(module=module, encoding=encoding, blocks=("model.vision_tower.encoder.layers", LLAVA_TEXT))


LLAVA_TEXT = "model.language_model.layers"
CASES: dict[str, Callable[[], Case]] = {
    "shapes-llava": lambda: shipped("shapes-llava", "model.vision_tower.encoder.layers", LLAVA_TEXT),
    "shapes-qwen3_5": lambda: shipped("shapes-qwen3_5", "model.visual.blocks", LLAVA_TEXT),
    "llava-150m": llava_150m,
}


def traced(model: StandardizedTransformer, encoding: Encoding) -> list[torch.Tensor]:
    """Every block's output by its standard name, the tower's first."""
    with model.trace(**encoding):
        held = nnsight.save([block.layer_output for block in [*model.vision.layers, *model.layers]])
    return held  # noqa: RET504 - the body of a trace cannot return


def hooked(module: torch.nn.Module, encoding: Encoding, blocks: tuple[str, str]) -> list[torch.Tensor]:
    """The same by hooks, which are set and taken away as a trace's are."""
    held: list[torch.Tensor] = []

    def keep(_: Any, args: Any, output: Any) -> None:
        held.append(output[0] if isinstance(output, tuple) else output)

    listed = [block for path in blocks for block in module.get_submodule(path)]
    handles = [block.register_forward_hook(keep) for block in listed]
    try:
        module(**encoding)
    finally:
        for handle in handles:
            handle.remove()
    return held


def timed(run: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def compare(case: Case, rounds: int, warmup: int, clock: Callable[[], float]) -> list[tuple[float, float]]:
    """Seconds of each round, trace and hooks; before any is taken, both must have read the same."""
    untouched = copy.deepcopy(case.module).eval()
    model = StandardizedTransformer(case.module.eval())
    with torch.no_grad():
        for ours, theirs in zip(
            traced(model, case.encoding), hooked(untouched, case.encoding, case.blocks), strict=True
        ):
            # A packed tower's stream is served with a leading 1.
            assert torch.equal(ours.view(theirs.shape), theirs)
        sides = (
            lambda: traced(model, case.encoding),
            lambda: hooked(untouched, case.encoding, case.blocks),
        )
        for _ in range(warmup):
            for side in sides:
                side()
        gc.collect()
        return [(timed(sides[0], clock), timed(sides[1], clock)) for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="paired measurements per model")
    parser.add_argument("--warmup", type=int, default=5, help="rounds that are run and not counted")
    parser.add_argument("--only", choices=list(CASES), action="append", help="one model; may be given again")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="what torch may use")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds and not the wall's, for a machine that is busy")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.process_time if given.cpu else time.perf_counter
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    measure = f"{clock.__name__}, {given.threads} threads, {given.rounds} rounds"
    print(f"torch {torch.__version__}; {measure}; the ratio is trace / hooks")
    print(f"{'model':<16}{'params':>9}{'trace ms':>10}{'hooks ms':>10}{'min':>8}{'median':>8}{'max':>8}")
    for name in given.only or CASES:
        case = CASES[name]()
        seconds = compare(case, given.rounds, given.warmup, clock)
        ratios = [trace / hooks for trace, hooks in seconds]
        trace_ms, hooks_ms = (statistics.median(side) * 1000 for side in zip(*seconds, strict=True))
        print(
            f"{name:<16}{case.parameters / 1e6:>8.1f}M{trace_ms:>10.2f}{hooks_ms:>10.2f}"
            f"{min(ratios):>8.3f}{statistics.median(ratios):>8.3f}{max(ratios):>8.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
