"""What asking costs: `support()` of a full-size Qwen3.5 from its config alone, without weights.

The question is asked in a fresh process each time, because imports and caches are part of the answer. Peak memory is
the process's, and beside it the peak of what Python itself allocated, which a second process measures since counting
slows it down::

    python benchmarks/support.py
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from typing import Any

MEBIBYTE = 2**20


def ask(trace_memory: bool) -> dict[str, Any]:
    """The whole question in this process: seconds and memory of each step."""
    start = time.perf_counter()
    import nnsight  # noqa: F401 - before any transformers model, which nnsight patches
    from transformers import Qwen3_5Config

    from belvedere import StandardizedTransformer

    libraries = time.perf_counter()
    # The modeling file imports most of torch, which is no part of asking; transformers would do it at the first build.
    from transformers.models.qwen3_5 import modeling_qwen3_5  # noqa: F401

    imported, before = time.perf_counter(), peak()
    if trace_memory:
        tracemalloc.start()
    model = StandardizedTransformer.from_config(Qwen3_5Config())
    built = time.perf_counter()
    support = model.support()
    asked = time.perf_counter()
    return {
        "blocks": [model.vision.num_layers, model.num_layers],
        "values": len(support),
        "libraries": libraries - start,
        "modeling": imported - libraries,
        "build": built - imported,
        "support": asked - built,
        "before": before,
        "peak": peak(),
        "python": tracemalloc.get_traced_memory()[1] / MEBIBYTE if trace_memory else 0.0,
    }


def peak() -> float:
    """The most memory that this process has held, in MiB; the kernel counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fresh(*options: str) -> dict[str, Any]:
    """`ask` in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--ask", *options], capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes")
    parser.add_argument("--ask", action="store_true", help="ask once, in this process, and print JSON")
    parser.add_argument("--python-memory", action="store_true", help="with --ask: count what Python allocates")
    given = parser.parse_args()
    if given.ask:
        print(json.dumps(ask(given.python_memory)))
        return
    answers = [fresh() for _ in range(given.rounds)]
    python = fresh("--python-memory")["python"]
    tower, text = answers[0]["blocks"]
    print(f"Qwen3.5, {tower} tower blocks and {text} text blocks on the meta device, {answers[0]['values']} values")
    for step in ("libraries", "modeling", "build", "support"):
        seconds = [answer[step] for answer in answers]
        least, median, most = min(seconds), statistics.median(seconds), max(seconds)
        print(f"{step:<10}{least:>8.2f} s min{median:>8.2f} s median{most:>8.2f} s max")
    held, before = (statistics.median(answer[name] for answer in answers) for name in ("peak", "before"))
    print(
        f"peak memory {held:.0f} MiB, {before:.0f} of them after the imports; Python's own allocations {python:.1f} MiB"
    )


if __name__ == "__main__":
    main()
