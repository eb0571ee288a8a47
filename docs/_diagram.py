"""The drawings of the page "Names and values": a wrapper, and a block, with every value at its place.

A drawing is a column from top to bottom, so that it is read on a phone. What stands in it is named below; shapes are
read off the values, and each label leads to its row in the tables of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

from _hooks import anchor

from belvedere import components, layouts
from belvedere.descriptors import Value
from belvedere.standardized import StandardizedTransformer

#: Of a drawing: its width, where areas begin and end, the way down, where labels begin, and the ways around.
WIDTH, LEFT, RIGHT, RAIL, LABELS, WEST, EAST = 376, 18, 358, 84, 112, 7, 369
#: Between two things that stand below each other, and what a shape reaches into it.
GAP, SHAPE = 22, 8


@dataclass(frozen=True)
class Part:
    """A module, or an operation, on the way down."""

    name: str
    says: str = ""


@dataclass(frozen=True)
class Held:
    """A value at a point of the way."""

    host: str
    name: str


@dataclass(frozen=True)
class Join:
    """A place where something is added to the stream, or written into it."""

    sign: str
    name: str


@dataclass(frozen=True)
class Area:
    """What belongs together: a title and what stands in it."""

    title: str
    steps: tuple[Any, ...]


ROOT = "StandardizedTransformer"

WRAPPER = (
    Part("processor", "prompt and pictures"),
    Area(
        "model",
        (
            *(Held(ROOT, name) for name in ("input_ids", "attention_mask", "input_size")),
            *(Held("Vision", name) for name in ("image_token_mask", "video_token_mask")),
            Part("embed_tokens"),
            Held(ROOT, "token_embeddings"),
        ),
    ),
    Area(
        "model.vision",
        (
            Part("patch_embed", "patches of the picture"),
            Held("Vision", "patch_embeddings"),
            Held("Vision", "position_embeddings"),
            Join("+", "positions, where they are learned"),
            Held("QwenVision", "rotary"),
            Held("QwenVision", "segments"),
            Part("layers[i]", "a block, times num_layers"),
            Part("norm", "where the tower has one"),
            Held("Vision", "tower_output"),
        ),
    ),
    Area(
        "model",
        (
            Held("Vision", "merged_patches"),
            Part("projector"),
            Held("Vision", "image_features"),
            Held("Vision", "image_features_per_image"),
            Held("Vision", "video_features"),
            Join("write", "over the placeholders' embeddings"),
            Part("layers[i]", "a block, times num_layers"),
            Held("DeepstackLayer", "deepstack_output"),
            Part("norm"),
            Part("lm_head"),
            Held(ROOT, "logits"),
            Held(ROOT, "next_token_probs"),
        ),
    ),
)


def block(layer: str, attention: str, mlp: str, segments: str = "") -> tuple[Any, ...]:
    """The steps of a block, text's or tower's."""
    inside = ("attention_queries", "attention_keys", "attention_values", "attention_scores", "attention_probabilities")
    return (
        Held(layer, "layer_input"),
        Area(
            "a branch",
            (
                Part("input_layernorm"),
                Part("self_attn"),
                *(Held(attention, name) for name in inside),
                *([Held(segments, "segment_probabilities")] if segments else []),
                Held(attention, "attention_head_outputs"),
                *([] if segments else [Held("GatedAttention", "attention_gate")]),
                Held(attention, "attention_output"),
            ),
        ),
        Join("+", "back on the stream"),
        Area(
            "a branch",
            (Part("post_attention_layernorm"), Part("mlp"), Held(mlp, "mlp_output")),
        ),
        Join("+", "back on the stream"),
        Held(layer, "layer_output"),
    )


TEXT = block("Layer", "Attention", "Mlp")
TOWER = block("VisionLayer", "VisionAttention", "VisionMlp", "QwenVisionAttention")
DRAWINGS = {
    "wrapper": (WRAPPER, "A wrapper: a tower, a projector and a text model"),
    "text": (TEXT, "A text block, model.layers[i]"),
    "tower": (TOWER, "A tower block, model.vision.layers[i]"),
}


def drawn(steps: tuple[Any, ...]) -> Iterator[Held]:
    """The values of a drawing."""
    for step in steps:
        if isinstance(step, Area):
            yield from drawn(step.steps)
        elif isinstance(step, Held):
            yield step


def every_drawn() -> set[str]:
    """The names of all values that any drawing has."""
    return {held.name for steps, _ in DRAWINGS.values() for held in drawn(steps)}


def found(held: Held) -> Value[Any]:
    """The value itself."""
    host = StandardizedTransformer if held.host == ROOT else getattr(components, held.host)
    value: Value[Any] = host.values()[held.name]
    return value


@dataclass
class Pen:
    """What has been drawn so far, how far down, the last point, and what ways around lead from and to."""

    y: float = 8
    back: list[str] = field(default_factory=list)
    front: list[str] = field(default_factory=list)
    last: float = 0
    gaps: list[float] = field(default_factory=list)
    joins: list[tuple[float, float]] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, kind: str) -> None:
        """A line of text."""
        self.front.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    def box(self, x: float, width: float, height: float, kind: str, corner: float = 5) -> None:
        """A box that begins here."""
        where = f'x="{x:g}" y="{self.y:g}" width="{width:g}" height="{height:g}" rx="{corner:g}"'
        self.front.append(f'<rect {where} class="{kind}"/>')

    def way(self, path: str, kind: str = "flow") -> None:
        """A line behind all boxes."""
        self.back.append(f'<path d="{path}" class="{kind}"/>')


def drawing(name: str) -> str:
    """A drawing as SVG that follows the page's colours."""
    steps, title = DRAWINGS[name]
    pen = Pen()
    for step in steps:
        STEPS[type(step)](pen, step)
        pen.gaps.append(pen.y - GAP)
    (_ways_of_a_wrapper if name == "wrapper" else _ways_of_a_block)(pen)
    areas = [one for one in pen.back if 'class="area"' in one]
    ways = [one for one in pen.back if 'class="area"' not in one]
    height = pen.y - GAP + SHAPE + 8
    return (
        f'<figure class="drawing" id="drawing-{name}"><svg viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{title}">{"".join([*areas, *ways, *pen.front])}</svg><figcaption>{title}</figcaption></figure>'
    )


def _area(pen: Pen, area: Area) -> None:
    top = pen.y
    pen.text(RIGHT - 8, top + 17, area.title, "title")
    pen.y += 26 if isinstance(area.steps[0], Held) else 10
    for step in area.steps:
        STEPS[type(step)](pen, step)
    pen.y += 10 - GAP + (SHAPE + 2 if isinstance(area.steps[-1], Held) else 0)
    where = f'x="{LEFT}" y="{top:g}" width="{RIGHT - LEFT}" height="{pen.y - top:g}" rx="8"'
    pen.back.append(f'<rect {where} class="area"/>')
    pen.y += GAP


def _part(pen: Pen, part: Part) -> None:
    left, width = RAIL - 56, max(112, 7.4 * len(part.name) + 16)
    pen.box(left, width, 26, "part")
    pen.text(left + 9, pen.y + 17, part.name, "name")
    pen.text(left + width + 8, pen.y + 17, part.says, "note")
    pen.y += 26 + GAP


def _held(pen: Pen, held: Held) -> None:
    value, middle = found(held), pen.y + 8
    shape = layouts.shape(value.layout) or value.layout
    pen.front.append(f'<circle cx="{RAIL}" cy="{middle:g}" r="4.5" class="point"/>')
    pen.way(f"M{RAIL} {middle:g}H{LABELS - 5}", "leader")
    pen.front.append(f'<a href="#{anchor(held.host, held.name)}">')
    pen.text(LABELS, middle + 4, held.name, "value")
    pen.front.append("</a>")
    pen.text(LABELS, middle + 17, shape, "shape")
    pen.last = middle
    pen.y += 14 + GAP


def _join(pen: Pen, join: Join) -> None:
    wide = 8 * len(join.sign) + 14
    pen.box(RAIL - wide / 2, wide, 22, "join", 11)
    pen.text(RAIL, pen.y + 15, join.sign, "sign")
    pen.text(RAIL + wide / 2 + 8, pen.y + 15, join.name, "note")
    pen.joins.append((RAIL - wide / 2, pen.y + 11))
    pen.y += 22 + GAP


STEPS = {Part: _part, Held: _held, Join: _join, Area: _area}


def _into(pen: Pen, start: float, join: tuple[float, float]) -> None:
    """The way along the left side, into a join."""
    x, y = join
    pen.way(f"M{RAIL} {start:g}H{WEST}V{y:g}H{x - 6:g}")
    pen.way(f"M{x - 7:g} {y - 4:g}l7 4l-7 4z", "head")


def _ways_of_a_block(pen: Pen) -> None:
    """The stream: down, and around each branch to where it is added."""
    pen.way(f"M{RAIL} 12V{pen.last:g}")
    for gap, join in zip((pen.gaps[0], pen.gaps[2]), pen.joins, strict=True):
        _into(pen, gap + GAP / 2, join)


def _ways_of_a_wrapper(pen: Pen) -> None:
    """The prompt past the tower to where features are written, and the pictures past the embedding to the tower."""
    processor, embedded, *_ = pen.gaps
    pen.way(f"M{RAIL} 20V{embedded + 7:g}")
    pen.way(f"M{RAIL} {embedded + 15:g}V{pen.last:g}")
    pen.way(f"M{RAIL} {processor + GAP / 2:g}H{EAST}V{embedded + 15:g}H{RAIL}")
    _into(pen, embedded + 7, pen.joins[-1])
