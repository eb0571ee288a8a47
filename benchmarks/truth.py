"""How well each experiment finds the object that the answer is about, on checkpoints that are known to look at it.

Two scenes differ in one object. Each method scores every image token (or every patch of the tower), and is asked two
things: the area under the ROC curve with which the tokens of the object come first (1 is perfect), and how
much of the clean answer comes back when its best tokens, as many as the object has, are really patched.

    python benchmarks/truth.py
    python benchmarks/truth.py --scenes 10 --checkpoint shapes-llava
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from belvedere import StandardizedTransformer, Unavailable, shapes
from belvedere.cli.quiet import quiet
from belvedere.experiments import (
    StandIn,
    ablate,
    attribute,
    knockout,
    lens,
    logit_difference,
    patch,
    relevance,
    stand_in,
)

TOKENS, PATCHES = "layers.layer_input", "vision.layers.layer_input"
REFERENCES = range(500_000, 500_008)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two scenes, and where their object is."""

    model: StandardizedTransformer
    clean: dict[str, Any]
    corrupt: dict[str, Any]
    answer: int
    other: int
    places: list[int]
    object_tokens: Tensor
    object_patches: Tensor
    by: dict[str, StandIn]

    @property
    def metric(self) -> Any:
        """The clean answer's logit less the corrupt one's."""
        return logit_difference(self.answer, self.other)

    def patched(self, value: str, positions: list[Any]) -> Tensor:
        """What patching restores at the first block; several methods may choose the same tokens."""
        given = (self.model, self.clean, self.corrupt, value, self.metric)
        wanted = [tuple(sorted(one)) if isinstance(one, list) else one for one in positions]
        once = list(dict.fromkeys(wanted))
        effects = patch(*given, layers=[0], positions=once, batch_cells=64, progress=False).effects[0]
        return effects[[once.index(one) for one in wanted]]


def attributed(pair: Pair, value: str, positions: list[int], steps: int | None) -> Tensor:
    given = (pair.model, pair.clean, pair.corrupt, value, pair.metric)
    return attribute(*given, layers=[0], positions=positions, steps=steps, progress=False).effects[0]


def ablated(pair: Pair, by: str) -> Tensor:
    given = (pair.model, pair.clean, TOKENS, pair.metric)
    options = {"layers": [0], "positions": pair.places, "batch_cells": 64, "progress": False}
    return -ablate(*given, by=pair.by[by], **options).effects[0]


def cut(pair: Pair) -> Tensor:
    edges = {str(place): ("text", [place]) for place in pair.places}
    return -knockout(pair.model, pair.clean, edges, pair.metric, progress=False).effects[:, 0]


def relevant(pair: Pair, method: str, contrast: bool, patches: bool = False) -> Tensor:
    metric = pair.metric if contrast else None
    found = relevance(pair.model, pair.clean, method=method, answer=pair.answer, metric=metric, progress=False)
    return (found.on_patches() if patches else found.on_tokens())[0].abs()


def read(pair: Pair) -> Tensor:
    return lens(pair.model, pair.clean, watch=[pair.answer], top=1, progress=False).watched[-1, :, 0]


METHODS: dict[str, Callable[[Pair], Tensor]] = {
    "patching": lambda pair: pair.patched(TOKENS, pair.places),
    "attribution patching": lambda pair: attributed(pair, TOKENS, pair.places, None),
    "attribution patching, 8 steps": lambda pair: attributed(pair, TOKENS, pair.places, 8),
    "ablation, zero": partial(ablated, by="zero"),
    "ablation, mean": partial(ablated, by="mean"),
    "ablation, resampled": partial(ablated, by="resample"),
    "knockout, text <- token": cut,
    "gradient x input, logit": partial(relevant, method="gradient", contrast=False),
    "gradient x input, difference": partial(relevant, method="gradient", contrast=True),
    "rollout": partial(relevant, method="rollout", contrast=False),
    "weighted rollout, logit": partial(relevant, method="weighted", contrast=False),
    "weighted rollout, difference": partial(relevant, method="weighted", contrast=True),
    "lens, last block": read,
}
#: The same over the tower's patches, each with the rows that it scores.
TOWER: dict[str, Callable[[Pair, list[int]], Tensor]] = {
    "patching": lambda pair, rows: pair.patched(PATCHES, rows),
    "attribution patching": lambda pair, rows: attributed(pair, PATCHES, rows, None),
    "attribution patching, 8 steps": lambda pair, rows: attributed(pair, PATCHES, rows, 8),
    "gradient x input, difference": lambda pair, rows: relevant(pair, "gradient", True, True)[rows],
}


def area(scores: Tensor, right: Tensor) -> float:
    """The chance that a right one scores higher than a wrong one, ties counted half."""
    ahead = scores[right][:, None] - scores[~right][None]
    return float((ahead > 0).double().mean() + (ahead == 0).double().mean() / 2)


def best(scores: Tensor, count: int, positions: list[int]) -> list[int]:
    return [positions[place] for place in scores.topk(count).indices.tolist()]


def pairs(model: StandardizedTransformer, name: str, seeds: range) -> Iterator[Pair]:
    others = [shapes.sample(seed, checkpoint=name) for seed in REFERENCES]
    references = [{"text": scene.prompt, "images": scene.images} for scene in others]
    make = partial(stand_in, model, TOKENS, layers=[0])
    by = {kind: make(by=kind, references=references) for kind in ("zero", "mean", "resample")}
    for seed in track(seeds, description=name, console=Console(stderr=True)):
        scenes = shapes.pair(seed, checkpoint=name)
        answer, other = model.tokenizer.convert_tokens_to_ids([scene.answer for scene in scenes])
        clean, corrupt = ({"text": scene.prompt, "images": scene.images} for scene in scenes)
        layout = model.layout(scenes[0].prompt, images=scenes[0].images)
        tokens = torch.zeros(len(layout.tokens), dtype=torch.bool)
        tokens[layout.tokens_in(scenes[0].changed, scenes[0].asked)] = True
        rows = torch.zeros(len(layout.patches), dtype=torch.bool)
        rows[layout.patches_in(scenes[0].changed, scenes[0].asked)] = True
        yield Pair(
            model=model,
            clean=clean,
            corrupt=corrupt,
            answer=answer,
            other=other,
            places=layout.positions[:, 1].tolist(),
            object_tokens=tokens,
            object_patches=rows,
            by=by,
        )


def found(pair: Pair) -> Iterator[tuple[str, str, float, float]]:
    """The kind of position, the method, its area, and what patching its best positions restores."""
    kinds = model_rows(pair)
    for kind, value, positions, right, methods in kinds:
        count = int(right.sum())
        scored: dict[str, Tensor] = {}
        for method, score in methods.items():
            try:
                scored[method] = score(pair)
            except Unavailable:
                continue
        restored = pair.patched(value, [best(scores, count, positions) for scores in scored.values()])
        for (method, scores), part in zip(scored.items(), restored.tolist(), strict=True):
            yield kind, method, area(scores, right), part
        yield kind, "the object itself", 1.0, float(pair.patched(value, [held(positions, right)])[0])


def held(positions: list[int], right: Tensor) -> list[int]:
    return [position for position, is_right in zip(positions, right.tolist(), strict=True) if is_right]


def model_rows(pair: Pair) -> list[Any]:
    shown = pair.model.layout(pair.clean["text"], images=pair.clean["images"]).patches.of_kind("patch")
    rows = shown.nonzero().flatten().tolist()
    tower = {name: partial(score, rows=rows) for name, score in TOWER.items()}
    return [
        ("image tokens", TOKENS, pair.places, pair.object_tokens, METHODS),
        ("tower patches", PATCHES, rows, pair.object_patches[shown], tower),
    ]


def main(
    checkpoint: Annotated[list[str] | None, typer.Option(help="Which checkpoints; all by default.")] = None,
    scenes: Annotated[int, typer.Option(help="How many pairs of held-out scenes.")] = 100,
) -> None:
    """Print the mean area and what is restored, per checkpoint and method."""
    torch.set_num_threads(2)
    console = Console()
    for name in checkpoint or shapes.CHECKPOINTS:
        rows: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        with quiet():
            model = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
            for pair in pairs(model, name, range(scenes)):
                for kind, method, surface, restored in found(pair):
                    rows[kind, method].append((surface, restored))
        table = Table(title=f"{name}, {scenes} pairs", title_justify="left")
        for heading in ("positions", "method", "mean area", "worst", "restored by its best"):
            table.add_column(heading)
        for (kind, method), each in rows.items():
            surfaces, parts = torch.tensor(each).unbind(1)
            table.add_row(kind, method, f"{surfaces.mean():.3f}", f"{surfaces.min():.3f}", f"{parts.median():.2f}")
        console.print(table)


if __name__ == "__main__":
    typer.run(main)
