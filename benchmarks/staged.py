"""What running a tower by hand costs and saves: compilations, compiled against eager, and replays in counted FLOPs.

A tower of random weights and of a size at which arithmetic outweighs bookkeeping runs packs of one, two, three and five
pictures of different sizes. Three things are shown of it::

    python benchmarks/staged.py
    python benchmarks/staged.py --only qwen2_5_vl --rounds 20

compilations
    How many graphs ``torch.compile(staged.encode, fullgraph=True, dynamic=True)`` made for all packs, how many of them
    once it had seen the first.
compiled / eager
    The time of the compiled blocks against that of the same blocks uncompiled, whose attention runs once per picture.
    They take turns, A B A B, and each turn of both gives one ratio; the median of the ratios is the figure.
replay / tower
    Counted FLOPs, which no load of the machine moves: the blocks from the middle one on and the merge, against a whole
    forward of the tower; and the merge alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

from belvedere import StandardizedTransformer
from belvedere.staged import Staged
from belvedere.testing import ROWS

#: Patch rows and columns of each picture of a pack.
PACKS = ([(16, 24)], [(24, 16), (8, 20)], [(20, 20), (12, 28), (16, 16)], [(16, 12)] * 5)
SIDE, WIDTH, BLOCKS, HEADS = 8, 384, 8, 6
#: The fields of each tower's config that make it this large.
SIZES: dict[str, dict[str, int]] = {
    "qwen3_5": {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "depth": BLOCKS, "num_heads": HEADS},
    "qwen2_5_vl": {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "depth": BLOCKS, "num_heads": HEADS},
    "llava_pixtral": {
        "hidden_size": WIDTH,
        "intermediate_size": 4 * WIDTH,
        "num_hidden_layers": BLOCKS,
        "num_attention_heads": HEADS,
        "head_dim": WIDTH // HEADS,
        "image_size": 32 * SIDE,
    },
}


def build(name: str) -> StandardizedTransformer:
    """A tiny wrapper whose tower is not tiny."""
    config = ROWS[name].config()
    for field, size in SIZES[name].items():
        setattr(config.vision_config, field, size)
    torch.manual_seed(0)
    return StandardizedTransformer(AutoModelForImageTextToText.from_config(config).eval())


def encoding(name: str, grids: list[tuple[int, int]]) -> dict[str, torch.Tensor]:
    """Random pixels of pictures of these sizes."""
    made = torch.Generator().manual_seed(len(grids))
    if name == "llava_pixtral":
        sizes = torch.tensor(grids) * SIDE
        height, width = sizes.amax(0).tolist()
        return {"pixel_values": torch.randn(len(grids), 3, height, width, generator=made), "image_sizes": sizes}
    patches = sum(rows * columns for rows, columns in grids)
    grid = torch.tensor([[1, rows, columns] for rows, columns in grids])
    return {"pixel_values": torch.randn(patches, 6 * SIDE**2, generator=made), "image_grid_thw": grid}


def timed(run: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def flops(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def replay(staged: Staged, given: dict[str, torch.Tensor]) -> tuple[float, float]:
    """The counted cost of a replay from the middle block, and of the merge alone, against the tower's own forward."""
    state = staged.encode(staged.embed(**given), stop=len(staged.blocks) // 2)
    ended = staged.encode(state)
    whole = flops(lambda: staged.parts.source(state.source))
    again = flops(lambda: staged.merge(staged.encode(state)))
    return again / whole, flops(lambda: staged.merge(ended)) / whole


def run(name: str, backend: str, rounds: int, clock: Callable[[], float]) -> None:
    model = build(name)
    staged = model.vision.staged
    torch._dynamo.reset()
    counters.clear()
    compiled: Any = torch.compile(staged.encode, fullgraph=True, dynamic=True, backend=backend)
    states = [staged.embed(**encoding(name, grids)) for grids in PACKS]
    ratios: list[list[float]] = []
    graphs: list[int] = []
    for state in states:
        # Before any time is taken, both have run, and agree.
        torch.testing.assert_close(compiled(state).hidden, staged.encode(state).hidden, atol=1e-4, rtol=1e-4)
        graphs.append(int(counters["stats"]["unique_graphs"]))
        sides = (partial(compiled, state), partial(staged.encode, state))
        turns = [(timed(sides[0], clock), timed(sides[1], clock)) for _ in range(rounds)]
        ratios.append([ours / plain for ours, plain in turns])
    again, merging = replay(staged, encoding(name, PACKS[2]))
    shown = "  ".join(f"{statistics.median(one):.2f} ({min(one):.2f}-{max(one):.2f})" for one in ratios)
    print(f"{name:<15}{graphs[-1]:>4} graph(s), {graphs[-1] - graphs[0]} more after the first pack", flush=True)
    print(f"{'':<15}compiled / eager, packs of {', '.join(str(len(p)) for p in PACKS)}: {shown}", flush=True)
    print(f"{'':<15}replay / tower {again:.3f}, merge / tower {merging:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="paired measurements per pack")
    parser.add_argument("--only", choices=list(SIZES), action="append", help="one tower; may be given again")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="what torch may use")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds and not the wall's, for a machine that is busy")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.process_time if given.cpu else time.perf_counter
    logging.set_verbosity_error()
    print(
        f"torch {torch.__version__}; {clock.__name__}, {given.threads} threads, {given.rounds} rounds, {given.backend}"
    )
    with torch.no_grad():
        for name in given.only or SIZES:
            run(name, given.backend, given.rounds, clock)


if __name__ == "__main__":
    main()
