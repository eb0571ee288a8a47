"""The first draft of a missing family entry, from a config alone: names guessed, guesses marked, nothing hidden.

The model is built on the meta device. A guess is a module's own kind (an attention, an MLP, a norm, a convolution)
under the name that the checkpoint gives it; whoever saves the draft checks it against the conformance suite.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from belvedere import families, loading
from belvedere.errors import InputError

__all__ = ["draft"]

#: Standard names of a block's parts, by what the class of the module is called.
KINDS = {"self_attn": "Attention|DeltaNet", "mlp": "MLP|Mlp|FeedForward|Moe|MoE|Sparse"}
NORMS = ("input_layernorm", "post_attention_layernorm")
NORM = re.compile("Norm")
PROJECTOR = re.compile("proj|merger|connector|aligner|adapter|resampler")


def draft(config: Any) -> str:
    """What is known of a config's three parts, and a first entry with a zoo row for each that is missing.

    Args:
        config: A transformers config, or a path or Hub id to read one from.

    Returns:
        Text for the terminal: each part's state, then file by file what to save.

    Raises:
        FileNotFoundError: There is no such config.
        InputError: transformers builds no model from it alone.
    """
    import transformers

    config = loading.read_config(config, {})
    vision = getattr(config, "vision_config", None)
    task = loading.TEXT if vision is None else loading.IMAGE_TEXT
    try:
        with torch.device("meta"):
            module = getattr(transformers, loading.auto_class(task)).from_config(config)
    except ValueError as error:
        raise InputError(
            f"{loading.auto_class(task)} builds no model from a {config.model_type!r} config, so there is none to look "
            "at; pass the config of the part that it does build"
        ) from error
    types = {"text": config.get_text_config().model_type}
    if vision is not None:
        types |= {"towers": vision.model_type, "wrappers": config.model_type}
    missing = [shelf for shelf, name in types.items() if name not in families.known(shelf)]
    lines = [f"{shelf:9} {name:28} {'missing' if shelf in missing else 'known'}" for shelf, name in types.items()]
    if (cause := families.DECLINED.get(config.model_type)) is not None:
        lines.append(f"looked at before, and declined: {cause}")
    for shelf in missing:
        body = _wrapper(module, types) if shelf == "wrappers" else _stack(module, shelf, types[shelf])
        lines += ["", f"--- families/{shelf}/{types[shelf]}.py", *body]
    if missing:
        lines += ["", "--- a row of belvedere/testing/zoo", *_row(module, types)]
    return "\n".join(lines) + "\n"


def _stack(module: nn.Module, shelf: str, model_type: str) -> Iterator[str]:
    """A text stack's or a tower's entry."""
    path, stack = _find(module, model_type)
    if stack is None:
        yield f"# no module's config has model_type {model_type!r}; look for the stack by hand:"
        yield from _tree(module, 2)
        return
    kind, block = ("TEXT", "text stack") if shelf == "text" else ("VISION", "tower")
    yield f'"""{model_type}\'s {block} (`{type(stack).__name__}`): say what sets it apart."""'
    yield ""
    yield f"from belvedere.components import {kind}_BLOCK"
    yield ""
    guesses = [(native, standard) for native, standard in _names(stack) if native != standard]
    yield "RENAME = {" if guesses else "RENAME: dict[str, str] = {}"
    yield from (f'    "{native}": "{standard}",  # guess' for native, standard in guesses)
    yield from ["}"] if guesses else []
    yield f"ENVOYS = {kind}_BLOCK  # guess: plain softmax attention and a dense MLP, each added as it comes out"
    if shelf == "text" and path not in ("model", "") and path.count(".") == 0:
        yield f'STACK = "{path}"  # where the stack is in a text-only model'
    yield ""
    yield f"# the native tree at {path or 'the root'}, one block shown:"
    yield from _tree(stack, 4)


def _wrapper(module: nn.Module, types: dict[str, str]) -> Iterator[str]:
    """A wrapper's entry: only what departs from the defaults."""
    default = families.Wrapper()
    (text, _), (tower, held) = _find(module, types["text"]), _find(module, types["towers"])
    inner = text.rpartition(".")[0]
    below = (path for path, _ in _children(module, inner) if PROJECTOR.search(path.rpartition(".")[2]))
    projector: str | None = next(below, None)
    if projector is None and held is not None:
        projector = next((f"{tower}.{name}" for name, _ in held.named_children() if PROJECTOR.search(name)), None)
    found = {"text": text, "tower": tower, "projector": projector, "inner": inner}
    given = [f"{name}={path!r}" for name, path in found.items() if path != getattr(default, name)]
    yield f'"""{types["wrappers"]} (`{type(module).__name__}`): say what sets it apart."""'
    yield ""
    yield "from belvedere.families.facts import Wrapper"
    yield ""
    yield f"WRAPPER = Wrapper({', '.join(given)}){'  # guess' if given else ''}"
    yield ""
    yield "# where features may enter, read off the forwards; the default is inputs_embeds.masked_scatter():"
    for where in (module.get_submodule(inner), module):
        lines = inspect.getsource(type(where).forward).splitlines()
        found_here = [
            line.strip() for line in lines if re.search(r"masked_scatter\(|inputs_merger\(|torch\.where\(", line)
        ]
        yield from (f"#   {type(where).__name__}: {line}" for line in found_here)


def _row(module: nn.Module, types: dict[str, str]) -> Iterator[str]:
    """The zoo row, with the native paths that raw hooks need."""
    path, stack = _find(module, types["text"])
    blocks = _blocks(stack)[0] if stack is not None else "layers"
    name = types.get("wrappers", types["text"])
    yield f'"{name}": Row('
    yield f"    config=...,  # a small {type(module.config).__name__}"
    yield "    inputs=...,  # an encoding with everything that the model needs beside ids"
    yield f'    blocks="{path}.{blocks}",'
    if "towers" in types:
        tower, held = _find(module, types["towers"])
        yield f'    tower="{tower}.{_blocks(held)[0] if held is not None else "layers"}",'
    else:
        yield '    auto="AutoModelForCausalLM",'
    yield "),"


def _find(module: nn.Module, model_type: str) -> tuple[str, Any]:
    """The outermost module with a config of this type and blocks of its own."""
    for path, below in module.named_modules():
        own = getattr(getattr(below, "config", None), "model_type", None) == model_type
        if own and not hasattr(below, "lm_head") and _blocks(below)[1] is not None:
            return path, below
    return "", None


def _blocks(stack: nn.Module) -> tuple[str, Any]:
    """The longest list of modules of a stack: its blocks."""
    lists = [(path, held) for path, held in stack.named_modules() if isinstance(held, nn.ModuleList) and len(held)]
    lists = [(path, held) for path, held in lists if ".0." not in f".{path}."] or lists
    return max(lists, key=lambda pair: len(pair[1]), default=("", None))


def _names(stack: nn.Module) -> Iterator[tuple[str, str]]:
    """``(native, standard)`` guesses."""
    path, blocks = _blocks(stack)
    yield path, "layers"
    norms = iter(NORMS)
    for name, part in blocks[0].named_children():
        kind = type(part).__name__
        for standard, pattern in KINDS.items():
            if re.search(pattern, kind):
                yield name, standard
        if NORM.search(kind) and (position := next(norms, None)) is not None:
            yield name, position
    for name, part in stack.named_modules():
        if isinstance(part, (nn.Conv2d, nn.Conv3d)) and "layers" not in name:
            yield (name.rpartition(".")[0] if name.endswith(".proj") else name), "patch_embed"
            break
    for name, part in stack.named_modules():
        if isinstance(part, nn.Embedding):
            yield name, "position_embed" if "position" in name else "embed_tokens"
    norms_behind = [name for name, part in stack.named_children() if NORM.search(type(part).__name__)]
    yield from ((name, "norm") for name in norms_behind[-1:])


def _children(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.get_submodule(path).named_children():
        yield f"{path}.{name}" if path else name, child


def _tree(module: nn.Module, depth: int, indent: str = "#   ") -> Iterator[str]:
    """Names and classes, the first of several blocks only."""
    for name, child in module.named_children():
        if name.isdigit() and name != "0":
            continue
        yield f"{indent}{name}: {type(child).__name__}"
        if depth > 1:
            yield from _tree(child, depth - 1, f"{indent}  ")
