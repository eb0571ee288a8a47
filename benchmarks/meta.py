"""What it costs to know a checkpoint before it is loaded: importing, and building the full-size Qwen3-VL-MoE on meta.

Each figure is the median over fresh processes that take turns, ours beside plain transformers', as a ratio.

    python benchmarks/meta.py
"""

import json
import subprocess
import sys
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

IMPORTS = {
    "transformers and nnsight": "import nnsight, transformers",
    "belvedere": "import belvedere; belvedere.StandardizedTransformer",
}
CONFIG = """
import nnsight, torch
from transformers import AutoModelForImageTextToText, Qwen3VLMoeConfig
config = Qwen3VLMoeConfig(
    text_config=dict(
        hidden_size=4096, intermediate_size=12288, num_hidden_layers=94, num_attention_heads=64, num_key_value_heads=4,
        head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=1536, vocab_size=151936,
    ),
    vision_config=dict(depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, out_hidden_size=4096),
)
"""
BUILDS = {
    "transformers, on meta": CONFIG
    + "start = time.perf_counter()\n"
    + "with torch.device('meta'):\n    AutoModelForImageTextToText.from_config(config)\n",
    "belvedere, on meta": "from belvedere import StandardizedTransformer\n"
    + CONFIG
    + "start = time.perf_counter()\nStandardizedTransformer.from_config(config)\n",
    "belvedere, on meta, and support()": "from belvedere import StandardizedTransformer\n"
    + CONFIG
    + "start = time.perf_counter()\nStandardizedTransformer.from_config(config).support()\n",
}


def seconds(code: str) -> float:
    """How long the code takes in a process of its own, from where it sets ``start``."""
    whole = f"import time\nstart = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main(rounds: Annotated[int, typer.Option(help="Processes for each figure.")] = 5) -> None:
    """Print the table, and the same as one line of JSON."""
    table, ratios = Table("what", "seconds", "ratio to the first"), {}
    for group in (IMPORTS, BUILDS):
        taken: dict[str, list[float]] = {name: [] for name in group}
        for _ in range(rounds):
            for name, code in group.items():
                taken[name].append(seconds(code))
        base = median(next(iter(taken.values())))
        for name, held in taken.items():
            ratios[name] = median(held) / base
            table.add_row(name, f"{median(held):.2f}", f"{ratios[name]:.2f}")
    Console().print(table)
    print(json.dumps(ratios))


if __name__ == "__main__":
    typer.run(main)
