"""What the page of a tower says that the code knows: its picture, rows, wrappers, sizes, names and values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import _hooks
import _pictures
import _placing

from belvedere import families
from belvedere.descriptors import Value
from belvedere.errors import Unavailable
from belvedere.geometry import KINDS, PatchLayout
from belvedere.report import support_matrix
from belvedere.standardized import StandardizedTransformer
from belvedere.testing import ROWS

SIZES = (
    *("num_layers", "vision_hidden_size", "num_heads", "head_dim", "intermediate_size"),
    *("patch_size", "image_size", "window_size"),
)
#: What several rows or tokens of a kind are called.
ROW_WORDS = {"cls": "CLS", "register": "registers", "patch": "patches", "latent": "latents", "newline": "newlines"}


def tower(name: str) -> str:
    """What a tower is, its picture, and what the rows of its patch axis are."""
    entry, picture = families.lookup("towers", name), _pictures.PICTURES[name]
    _, layout = _pictures.placed(picture.row, picture.size)
    return "\n\n".join(
        (
            _hooks.sentence(entry),
            f"![{name}: a picture with its patches and image tokens](../pictures/{name}.png)",
            f"{picture.says} The picture is drawn of a tiny checkpoint ([how to read it](../where.md)): "
            f"{_counted(layout)}.",
            "## Rows",
            _rows(name, layout),
        )
    )


def inside(name: str) -> str:
    """A tower's wrappers, sizes, names and values."""
    entry, picture = families.lookup("towers", name), _pictures.PICTURES[name]
    model, _ = _pictures.placed(picture.row, picture.size)
    return "\n\n".join(
        (
            "## Wrappers that carry it",
            _carried(name),
            "## Sizes",
            _sizes(name),
            "## Names",
            _names(entry),
            "## Values",
            _values(model),
        )
    )


def _counted(layout: PatchLayout) -> str:
    """How many rows and tokens of each kind a layout has."""

    def of(cells: Any) -> str:
        counts = {kind: int(cells.of_kind(kind).sum()) for kind in KINDS}
        kept = {kind: count for kind, count in counts.items() if count}
        if set(kept) == {"patch"}:
            return ""
        return " (" + ", ".join(f"{count} {ROW_WORDS.get(kind, kind)}" for kind, count in kept.items()) + ")"

    tokens = f"{len(layout.tokens)} image tokens{of(layout.tokens)}" if len(layout.tokens) else "no image tokens"
    return f"{len(layout.patches)} rows{of(layout.patches)}, {tokens}"


def _rows(name: str, layout: PatchLayout) -> str:
    """What the rows of the patch axis are."""
    rows = families.compose(ROWS[_pictures.PICTURES[name].row].config()).rows
    shape = "all pictures' patches in one row, served as" if rows.packed else "one row for each picture or tile,"
    axes = "[1, patches, vision_hidden]" if rows.packed else "[images, patches, vision_hidden]"
    order = {
        "raster": "line by line, from the top left",
        "merge blocks": "merge block by merge block, the patches of a block line by line",
        "windows": "window by window, and in a window merge block by merge block",
    }[rows.order]
    padded = bool(layout.patches.of_kind("padding").any())
    facts = [
        ("The tower's stream", f"{shape} `{axes}`"),
        ("Order of the patches", order),
        ("Before the patches", f"{rows.before} row, CLS" if rows.before else "nothing"),
        ("Behind the patches", f"{rows.after} row, CLS" if rows.after else "nothing"),
        ("Padding", _padding(rows) if padded or rows.multiple > 1 else "none"),
    ]
    return "\n".join(f"- **{fact}**: {says}." for fact, says in facts)


def _padding(rows: families.Rows) -> str:
    more = f", to a multiple of {rows.multiple}" if rows.multiple > 1 else ""
    return f"rows behind the patches{more}; a layout calls them `padding`"


def _carried(name: str) -> str:
    """The wrappers with what an image token is made of there, and how a picture gets to the tower."""
    rows = [
        (_hooks._code(wrapper), token, way, f"`{processor(wrapper)}`")
        for tower, _, _, wrappers, token, way in _placing.towers()
        if tower == name
        for wrapper in wrappers
    ]
    return _hooks.table(("wrapper", "a token is made of", "the picture is", "by"), rows)


@cache
def processor(wrapper: str) -> str:
    """The image processor of a wrapper."""
    row = next(row for row in ROWS.values() if row.config().model_type == wrapper)
    if row.processor is None:
        return "SmolVLMImageProcessor"
    return type(row.processor().image_processor).__name__


@cache
def planned(name: str) -> StandardizedTransformer:
    """A wrapper of this tower by its config's own defaults, without weights."""
    small = ROWS[_pictures.PICTURES[name].row].config()
    model = StandardizedTransformer.from_config(type(small)())
    if model.vision.no_images() is None:
        return model
    # Of some wrappers the default is a text model.
    return StandardizedTransformer.from_config(type(small)(vision_config=type(small.vision_config)()))


def _sizes(name: str) -> str:
    model = planned(name)
    found = []
    for size in SIZES:
        try:
            found.append((f"`vision.{size}`", str(getattr(model.vision, size))))
        except Unavailable as refusal:
            found.append((f"`vision.{size}`", f"none: {refusal.reason}"))
    config = f"`{type(model.source_config).__name__}()`"
    return (
        f"Those of {config}; a checkpoint's own config may say otherwise, and `model.vision` answers for it.\n\n"
        + _hooks.table(("size", "by default"), found)
    )


def _names(entry: Any) -> str:
    """The tower's own names beside the standard ones."""
    rows = [(f"`{standard}`", f"`{native}`") for native, standard in entry.RENAME.items()]
    return (
        "Both names of a line are one module; a name that is not here is standard already.\n\n"
        + _hooks.table(("standard", "native"), rows)
        if rows
        else "All names are standard already."
    )


def _values(model: StandardizedTransformer) -> str:
    """Each value: whether it is served or recomputed, or why it is not there."""
    matrix = support_matrix(model, "")
    rows = []
    for group in matrix.groups:
        for row in group.rows:
            if row.value.startswith("vision."):
                reasons = list(dict.fromkeys(cell.reason for cell in row.cells if cell.reason))
                shape = next((cell.shape for cell in row.cells if cell.shape), "")
                rows.append((f"`{row.value}`", _answer(model, row.value, reasons), f"`{shape}`" if shape else ""))
    return _hooks.table(("value", "here it is", "shape"), rows)


def _answer(model: StandardizedTransformer, value: str, reasons: list[str]) -> str:
    if reasons:
        return reasons[0]
    return "recomputed, for the blocks that are read" if value in recomputed(model) else "served"


def recomputed(model: StandardizedTransformer) -> set[str]:
    """The patterns, which a fused kernel never builds."""
    from belvedere.components.pattern import PatternValue

    blocks = list(model.vision.layers)
    found: set[str] = set()
    for name, value in (pair for block in blocks for pair in _of_block(block)):
        if isinstance(value, PatternValue):
            found.add(f"vision.layers.{name}")
    return found


def _of_block(block: Any) -> Iterator[tuple[str, Value[Any]]]:
    from belvedere.components import Standard

    for part in (block, *vars(block).values()):
        if isinstance(part, Standard):
            yield from part.values().items()


def towers() -> str:
    """The pages of all towers, with what tells them apart."""
    rows = []
    for name in families.known("towers"):
        held = families.compose(ROWS[_pictures.PICTURES[name].row].config()).rows
        rows.append((f"[`{name}`]({name}.md)", _hooks.sentence(families.lookup("towers", name)), _hooks._rows(held)))
    return _hooks.table(("tower", "what it is", "rows"), rows)
