"""How well a patching map finds the object that changed: the area under the ROC curve, over pairs of scenes.

Each patch (or image token) is scored by what patching it restores, and is right if its box overlaps the changed object.
An area of 1 says that every patch on the object restores more than every other one, 0.5 that the map knows nothing.

    python benchmarks/auc.py
    python benchmarks/auc.py --pairs 10 --checkpoint shapes-llava
"""

from collections import defaultdict
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from belvedere import StandardizedTransformer, geometry, shapes
from belvedere.cli.quiet import quiet
from belvedere.experiments import patch, patch_boxes, token_boxes
from belvedere.report import shapes_case

SWEEPS = {"vision.layers.layer_output": patch_boxes, "layers.layer_input": token_boxes}


def area(scores: Tensor, right: Tensor) -> float:
    """The chance that a right one scores higher than a wrong one, ties counted half."""
    ahead = scores[right][:, None] - scores[~right][None]
    return float((ahead > 0).double().mean() + (ahead == 0).double().mean() / 2)


def areas(name: str, seeds: range) -> dict[tuple[str, int], list[float]]:
    """The area of each pair, by value and block."""
    model = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for seed in track(seeds, description=name, console=Console(stderr=True)):
        case = shapes_case(model, name, seed)
        for value, boxes_of in SWEEPS.items():
            result = patch(model, case.clean, case.corrupt, value, case.metric, batch_cells=64, progress=False)
            right = geometry.boxes_over(boxes_of(model, case.clean, case.picture.size), case.changed)
            for layer, effects in zip(result.layers, result.effects, strict=True):
                found[value, layer].append(area(effects, right))
    return found


def main(
    checkpoint: Annotated[list[str] | None, typer.Option(help="Which checkpoints; all by default.")] = None,
    pairs: Annotated[int, typer.Option(help="How many pairs of held-out scenes.")] = 50,
) -> None:
    """Print the mean area per checkpoint, value and block."""
    torch.set_num_threads(2)
    console = Console()
    for name in checkpoint or shapes.CHECKPOINTS:
        with quiet():
            found = areas(name, range(pairs))
        table = Table(title=f"{name}, {pairs} pairs", title_justify="left")
        for heading in ("value", "block", "mean area", "worst"):
            table.add_column(heading)
        for (value, layer), each in found.items():
            table.add_row(value, str(layer), f"{sum(each) / len(each):.3f}", f"{min(each):.3f}")
        console.print(table)


if __name__ == "__main__":
    typer.run(main)
