"""A model and its tower on one screen: what they are made of, their sizes, their parts, and what can be read."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from belvedere import layouts
from belvedere.components.gathering import block_parts
from belvedere.components.layer import MIXERS
from belvedere.components.reach import NoVision, taken
from belvedere.components.standard import blocks
from belvedere.errors import Unavailable

if TYPE_CHECKING:
    from belvedere.components.vision import Vision

__all__ = ["of_model", "of_tower"]

WIDTH = 110
LABEL = 13
#: The orders of a tower's rows, and how they are said.
ORDERS = {"raster": "line by line", "merge blocks": "merge block by merge block", "windows": "window by window"}
#: The parts of a model, in the order of the forward.
PARTS = ("vision", "projector", "embed_tokens", "layers", "norm", "lm_head")
IN_BLOCK = ("input_layernorm", *MIXERS, "post_attention_layernorm", "mlp")


def of_model(model: Any) -> str:
    """A model's class, checkpoint, parts and sizes, and how much of it can be read."""
    family = model.family
    rows = {
        "checkpoint": _checkpoint(model),
        "weights": _weights(model),
        "wrapper": family.wrapper or "none: a text model",
        "tower": _tower(model),
        "text": f"{family.text}: {', '.join(_text_sizes(model))}",
        "blocks": _mixers(model.layers),
        "parts": ", ".join(name for name in PARTS if _has(model, name)),
        "in a block": _in_blocks(model.layers),
        "values": _served(model.support()),
    }
    more = {
        "print(model.tree())": "all modules and values",
        "model.vision": "the tower, its rows and values",
        "model.describe('layers.layer_output')": "one value: what, shape, order, writes",
        "model.support()": "which values are not here, and why",
    }
    if isinstance(model.vision, NoVision):
        del more["model.vision"]
    longest = max(map(len, more))
    pointers = [f"  {call:<{longest}}  {said}" for call, said in more.items()]
    return "\n".join([f"{type(model).__name__}: {type(model._module).__name__}", *_lines(rows), *pointers])


def of_tower(vision: Vision) -> str:
    """A tower's sizes, its rows and image tokens, which block is read, and its values."""
    if (reason := vision.no_images()) is not None:
        return f"{type(vision._module).__name__}: not read: {reason}"
    rows = {
        "blocks": ", ".join(f"{len(getattr(vision, name))} in vision.{name}" for name in vision.LISTS),
        "sizes": ", ".join(_tower_sizes(vision)),
        "rows": _rows(vision),
        "image tokens": _tokens(vision),
        "taken": _taken(vision),
        "enters at": _entries(vision),
    }
    kind = f"{type(vision._module).__name__}: the tower, {vision.root.family.tower}"
    sizes = _lines({name: said for name, said in rows.items() if said})
    return "\n".join([kind, *sizes, *_values(vision), "  print(model.vision.tree())  all modules and values"])


def _lines(rows: dict[str, str]) -> Iterator[str]:
    for name, said in rows.items():
        yield from textwrap.wrap(
            said,
            WIDTH,
            initial_indent=f"  {name:<{LABEL}}",
            subsequent_indent=" " * (LABEL + 2),
            break_on_hyphens=False,
            break_long_words=False,
        )


def _checkpoint(model: Any) -> str:
    return str(model.repo_id or "a module in memory")


def _weights(model: Any) -> str:
    kinds: Counter[tuple[str, str]] = Counter()
    for one in model._module.parameters():
        kinds[str(one.dtype).removeprefix("torch."), str(one.device)] += one.numel()
    count = sum(kinds.values())
    size = f"{count / 1e9:.2f} billion" if count >= 1e9 else f"{count / 1e6:.2f} million"
    where = dict.fromkeys(device for _, device in kinds)
    if "meta" in where:
        when = "there are none, it cannot run" if model.dispatched else "not loaded yet, the first trace does"
        return f"{size} parameters; {when}"
    dtypes = dict.fromkeys(dtype for dtype, _ in kinds)
    return f"{size} parameters, {' and '.join(dtypes)} on {', '.join(where)}"


def _tower(model: Any) -> str:
    vision = model.vision
    if (reason := vision.no_images()) is not None:
        return f"none: {reason}"
    return f"{model.family.tower}: {', '.join([f'{vision.num_layers} blocks', *_tower_sizes(vision)])}"


def _text_sizes(model: Any) -> Iterator[str]:
    yield f"{model.num_layers} blocks"
    yield f"width {model.hidden_size}"
    # A model's attentions may differ, so each says its own.
    attentions = [vars(block)["self_attn"] for block in model.layers if "self_attn" in vars(block)]
    yield from dict.fromkeys(map(_heads, attentions))
    yield f"inner width {model.intermediate_size}"
    yield f"a vocabulary of {model.vocab_size}"


def _heads(attention: Any) -> str:
    heads, keys = attention.num_heads, getattr(attention, "num_kv_heads", attention.num_heads)
    return f"{heads} heads{'' if keys == heads else f' ({keys} of keys and values)'} of {attention.head_dim}"


def _tower_sizes(vision: Any) -> Iterator[str]:
    yield f"width {vision.vision_hidden_size}"
    heads, inner = _size(vision, "num_heads"), _size(vision, "intermediate_size")
    if heads is not None:
        yield f"{heads} heads of {vision.head_dim}"
    if inner is not None:
        yield f"inner width {inner}"
    yield f"patches of {vision.patch_size} x {vision.patch_size} pixels"
    if (window := _size(vision, "window_size")) is not None:
        yield f"windows of {window} x {window}"


def _size(vision: Any, name: str) -> int | None:
    """A size of a tower; ``None`` where it says that it has none."""
    try:
        return int(getattr(vision, name))
    except Unavailable:
        return None


def _rows(vision: Any) -> str:
    """What a tower's axis of rows holds."""
    rows = vision.root.family.rows
    order = f"the patches of a picture {ORDERS[rows.order]}"
    if rows.packed:
        return f"all pictures in one row, served as [1, patches, {vision.vision_hidden_size}]; {order}"
    around = [f"{count} {where}" for count, where in ((rows.before, "before"), (rows.after, "after")) if count]
    said = [order, *([f"{' and '.join(around)} them"] if around else [])]
    if rows.multiple > 1:
        said.append(f"padded to a multiple of {rows.multiple}")
    if (patches := _fixed(vision)) is not None:
        said.append(f"{patches + sum(rows.around(patches))} for {vision.image_size} x {vision.image_size} pixels")
    return ", ".join(said)


def _fixed(vision: Any) -> int | None:
    """How many patches a picture of the tower's own size has; ``None`` where pictures have any size."""
    side = _size(vision, "image_size")
    return None if side is None or not vision.layers else (side // vision.patch_size) ** 2


def _tokens(vision: Any) -> str:
    """The placeholder, and what one image token is made of."""
    root, facts = vision.root, vision.root.family.facts
    token = root.placeholder("image")
    said = [] if token is None else [f"id {token}{_written(root, token)}"]
    merge = vision.spatial_merge_size
    if facts.resampled:
        said.append("each is made of all patches of its picture or tile")
    elif merge > 1:
        said.append(f"each is made of {merge} x {merge} patches")
    if (count := _counted(vision)) is not None:
        said.append(f"{count} for {vision.image_size} x {vision.image_size} pixels")
    if facts.by_prompt:
        said.append("text blocks attend to the picture; nothing is written over placeholders")
    return ", ".join(said)


def _counted(vision: Any) -> int | None:
    """How many image tokens a picture of the tower's own size becomes; ``None`` where more than its size decides."""
    family, config = vision.root.family, vision.root.source_config
    facts = family.facts
    if facts.tokens is None or facts.tiled is not None or family.rows.packed or _fixed(vision) is None:
        return None
    side = vision.image_size // vision.patch_size
    kept = family.rows.before if getattr(config, "vision_feature_select_strategy", "default") == "full" else 0
    return int(facts.tokens(config, side, side, kept))


def _written(root: Any, token: int) -> str:
    tokenizer = root.tokenizer
    return "" if tokenizer is None else f" {tokenizer.convert_ids_to_tokens(token)!r}"


def _entries(vision: Any) -> str:
    """Where image information enters the text model; of many blocks the numbers are folded."""
    at: dict[tuple[str, str], list[int]] = {}
    for entry in vision.entries():
        before, mark, rest = entry.path.partition("layers[")
        number, _, after = rest.partition("]")
        at.setdefault((f"{before}layers" if mark else entry.path, after), []).append(int(number) if mark else 0)
    return ", ".join(f"{path}[{blocks(numbers)}]{after}" if after else path for (path, after), numbers in at.items())


def _taken(vision: Any) -> str:
    """What the wrapper takes of the tower."""
    if not vision.feature_layers:
        return "the tower's own output"
    later = vision.num_layers - 1 - vision.last_read
    return taken(*vision.feature_layers) + ("; nothing reads the later blocks" if later else "")


def _blocks_of(vision: Any) -> list[Any]:
    return [block for name in vision.LISTS for block in getattr(vision, name)]


def _mixers(stack: Iterable[Any]) -> str:
    """Which blocks have which mixer."""
    found: dict[str, list[int]] = {}
    for number, block in enumerate(stack):
        for name in MIXERS:
            if name in vars(block):
                found.setdefault(name, []).append(number)
    return "; ".join(f"{len(numbers)} with {name} ({blocks(numbers)})" for name, numbers in found.items())


def _in_blocks(stack: Iterable[Any]) -> str:
    names = dict.fromkeys(name for block in stack for name in IN_BLOCK if name in vars(block))
    return ", ".join(name for name in IN_BLOCK if name in names)


def _has(model: Any, name: str) -> bool:
    return name in vars(model) and not isinstance(vars(model)[name], NoVision)


def _served(support: dict[str, Any]) -> str:
    """How many values read on all blocks, on some, and on none."""
    everywhere = sum(reason is None for reason in support.values())
    somewhere = sum(isinstance(reason, dict) for reason in support.values())
    nowhere = len(support) - everywhere - somewhere
    some = f", {somewhere} on some blocks only" if somewhere else ""
    return f"{everywhere + somewhere} can be read{some}; {nowhere} are not here"


def _values(vision: Vision) -> Iterator[str]:
    """The tower's own values, and the names of those of its blocks."""
    found = vision.values().values()
    here = [one for one in found if one.reason(vision) is None]
    rows = [(str(one.name), layouts.shape(one.layout), str(one.description)) for one in here]
    wide, wider = (max(len(row[column]) for row in rows) for column in (0, 1))
    yield "  values"
    yield from (f"    {name:<{wide}}  {shape:<{wider}}  {said}" for name, shape, said in rows)
    missing = [str(one.name) for one in found if one.reason(vision) is not None]
    below = _below(vision)
    yield from _lines({"not here": ", ".join(missing)} if missing else {})
    yield from _lines(below)


def _below(vision: Vision) -> dict[str, str]:
    """The values that a block of the tower has, by part."""
    found: dict[str, dict[str, None]] = {}
    for block in _blocks_of(vision):
        for part in block_parts(block):
            names = found.setdefault(f".{part.part}" if part is not block else "of a block", {})
            names |= {str(one.name): None for one in part.values().values() if one.reason(part) is None}
    return {where: ", ".join(names) for where, names in found.items()}
