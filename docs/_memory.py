"""What values weigh: a table by the shapes of the values and the sizes of a config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import _hooks
from transformers import LlavaConfig, Qwen3VLConfig

from belvedere import layouts
from belvedere.components import Standard
from belvedere.components.gathering import block_parts
from belvedere.descriptors import Value
from belvedere.standardized import StandardizedTransformer

#: Tokens of the prompt beside the picture's, and bytes of a number in bfloat16.
WORDS, WIDTH = 64, 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A checkpoint that is asked about before it is loaded.

    Args:
        name: What it is called.
        config: Its config.
        counts: How long the axes are that the input decides.
        says: What the input is.
    """

    name: str
    config: Any
    counts: Mapping[str, int]
    says: str


def counts(patches: int, tokens: int) -> dict[str, int]:
    """The axes that one prompt with one picture decides."""
    seq = tokens + WORDS
    return {
        **{"batch": 1, "images": 1, "patches": patches, "segment": patches},
        **{"image_tokens": tokens, "seq": seq, "keys": seq},
    }


def plans() -> tuple[Plan, Plan]:
    """Two checkpoints: one whose tower takes a square picture, one that packs pictures of any size."""
    text = {
        **{"hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8},
        **{"head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936},
    }
    vision = {
        **{"depth": 27, "hidden_size": 1152, "num_heads": 16, "intermediate_size": 4304, "patch_size": 16},
        **{"out_hidden_size": 4096, "deepstack_visual_indexes": [8, 16, 24]},
    }
    return (
        Plan(
            name="LLaVA-1.5-7B",
            config=LlavaConfig(),
            counts=counts(patches=24 * 24 + 1, tokens=24 * 24),
            says="a picture of 336 x 336 pixels",
        ),
        Plan(
            name="Qwen3-VL-8B",
            config=Qwen3VLConfig(text_config=text, vision_config=vision),
            counts=counts(patches=64 * 64, tokens=32 * 32),
            says="a picture of 1024 x 1024 pixels",
        ),
    )


@cache
def model(name: str) -> StandardizedTransformer:
    """The model of a plan, without weights."""
    config = next(plan.config for plan in plans() if plan.name == name)
    return StandardizedTransformer.from_config(config)


def numbers(host: Standard, layout: str, given: Mapping[str, int]) -> int:
    """How many numbers a value of this layout has."""
    axes = re.findall(r"\w+", layouts.shape(layout).partition("[")[2])
    return prod(given[axis] if axis in given else host.axis_size(axis) for axis in axes)


def hosts(of: StandardizedTransformer) -> Iterator[tuple[str, Standard]]:
    """Whatever has values, with what their paths begin with: the root, the tower, each block and its parts."""
    yield "", of
    yield "vision.", of.vision
    for prefix, stack in (("vision.layers.", of.vision.layers), ("layers.", of.layers)):
        for block in stack:
            yield from ((prefix, part) for part in block_parts(block))


def is_weighed(found: Value[Any]) -> bool:
    """Whether a value is floating point numbers of the input's pictures or words, and not two tensors."""
    shape = layouts.shape(found.layout)
    own = getattr(getattr(layouts, found.layout, None), "dtypes", ("float",))
    return shape.startswith(("[", "list")) and "float" in " ".join(map(str, own)) and "video" not in str(found.name)


def weighed(of: StandardizedTransformer, given: Mapping[str, int]) -> dict[str, list[int]]:
    """How many numbers each value has, block by block, by standard path and in the order of the forward."""
    # CLS is put beside the patches after they are embedded.
    around = of.family.rows.before + of.family.rows.after
    found: dict[str, list[int]] = {}
    for prefix, host in hosts(of):
        for name, value in host.values().items():
            if is_weighed(value):
                own = {**given, "patches": given["patches"] - around} if name == "patch_embeddings" else given
                counts = found.setdefault(prefix + name, [])
                counts += [numbers(host, value.layout, own)] if value.reason(host) is None else []
    return found


def memory() -> str:
    """The table: a value, and what it weighs in one block and in all."""
    columns = [weighed(model(plan.name), plan.counts) for plan in plans()]
    # What a model of either kind declares absent keeps its place.
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(f"`{name}`", *_cells(columns[0].get(name)), *_cells(columns[1].get(name))) for name in names]
    head = [f"{plan.name}, {part}" for plan in plans() for part in ("one", "all")]
    return _hooks.table(("value", *head), [row for row in rows if any(row[1:])])


def _cells(counts: list[int] | None) -> tuple[str, str]:
    if not counts:
        return "", ""
    return size(counts[0] * WIDTH), f"{size(sum(counts) * WIDTH)} in {len(counts)}" if len(counts) > 1 else ""


def size(held: int) -> str:
    """Bytes as one reads them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if held >= factor:
            return f"{held / factor:.3g} {unit}"
    return f"{held} B"


def planned() -> str:
    """What the table is about, and what the weights themselves take."""
    lines = []
    for plan in plans():
        of, given = model(plan.name), plan.counts
        count = sum(parameter.numel() for parameter in of._module.parameters())
        lines.append(
            f"- **{plan.name}**: {count / 1e9:.1f} billion parameters, {size(count * WIDTH)}; {plan.says}, which is "
            f"{given['patches']} rows of the tower and {given['image_tokens']} image tokens in a prompt of "
            f"{given['seq']}; {of.vision.num_layers} tower blocks and {of.num_layers} text blocks."
        )
    return "\n".join(lines)
