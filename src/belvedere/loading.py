"""Config, task and processor of a checkpoint, before any weight loads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from belvedere.errors import UnsupportedFamily
from belvedere.families import known

__all__ = ["NoPipeline", "auto_class", "choose_task", "load_preprocessor", "read_config"]

IMAGE_TEXT = "image-text-to-text"
TEXT = "text-generation"
CONFIG_OPTIONS = ("trust_remote_code", "revision", "token", "cache_dir", "subfolder")


def read_config(checkpoint: Any, options: dict[str, Any]) -> Any:
    """A checkpoint's config, from a module, a config object, a config file, a folder or a Hub id.

    Raises:
        FileNotFoundError: There is no such folder, and no such id can be reached.
        UnsupportedFamily: There is a config, of a type that transformers does not know.
    """
    from transformers import AutoConfig, PreTrainedConfig

    if options.get("config") is not None:
        return options["config"]
    if isinstance(checkpoint, torch.nn.Module):
        return checkpoint.config
    if isinstance(checkpoint, PreTrainedConfig):
        return checkpoint
    given = {key: options[key] for key in CONFIG_OPTIONS if options.get(key) is not None}
    try:
        return AutoConfig.from_pretrained(str(checkpoint), **given)
    except OSError as error:
        raise _no_config(checkpoint) from error
    except ValueError as error:
        raise _unknown_type(checkpoint) from error


def _no_config(checkpoint: Any) -> FileNotFoundError:
    where = Path(str(checkpoint))
    names = sorted(found.name for found in where.iterdir())[:8] if where.is_dir() else []
    held = f"; it holds {', '.join(names)}" if names else ""
    if where.is_file():
        return FileNotFoundError(f"{str(checkpoint)!r} holds no config: it is not JSON with a model_type")
    return FileNotFoundError(
        f"no config at {str(checkpoint)!r}; pass a folder with a config.json, or a Hub id that can be reached{held}"
    )


def _unknown_type(checkpoint: Any) -> Exception:
    """What to say of a config whose type transformers does not know either."""
    where = Path(str(checkpoint))
    where = where / "config.json" if where.is_dir() else where
    try:
        raw = json.loads(where.read_text()) if where.is_file() else {}
    except ValueError:
        raw = {}
    if "model_type" not in raw:
        return _no_config(checkpoint)
    part, shelf = ("wrapper", "wrappers") if "vision_config" in raw else ("text", "text")
    return UnsupportedFamily(part, raw["model_type"], known(shelf))


def refuse_parts(family: Any, options: dict[str, Any]) -> None:
    """Refuse model types that are passed otherwise than by part.

    Raises:
        ValueError: They are; the message says how to pass them.
    """
    if family is not None and not isinstance(family, Mapping):
        raise ValueError(f"family={family!r}: pass the parts by name, such as {{'text': 'llama'}}")
    for part in ("text", "tower", "wrapper"):
        if part in options:
            given = {part: options[part]}
            raise ValueError(f"{part}={options[part]!r} is no argument; pass family={given!r}")


def refuse_misfit(family: Any, hosts: Mapping[str, Any]) -> None:
    """Refuse entries that do not name the blocks of what is loaded.

    Args:
        family: The checkpoint's `belvedere.families.Family`.
        hosts: The envoy that has the blocks, by part.

    Raises:
        ValueError: There are no blocks where an entry looks for them.
    """
    for part, host in hosts.items():
        if hasattr(host, "layers"):
            continue
        names = family.entry({"tower": "towers"}.get(part, part)).RENAME
        native = next((name for name, standard in names.items() if standard == "layers"), "layers")
        raise ValueError(
            f"the {part} entry {getattr(family, part)!r} does not fit {type(host._module).__name__}, which has no "
            f"blocks at {native!r}; pass family={{{part!r}: <a known type with the same modules>}}, or leave it out"
        )


def choose_task(family: Any, task: str | None) -> str:
    """The task that a checkpoint loads under: the asked one, else what its config is made for."""
    return task or (TEXT if family.wrapper is None else IMAGE_TEXT)


def refuse_text_only(config: Any, task: str) -> None:
    """Raise where transformers has no text-only model for a wrapper.

    Raises:
        ValueError: The task is text generation, and the config's type is none that transformers loads for it.
    """
    from transformers import AutoModelForCausalLM

    custom = "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})
    if task == TEXT and not custom and type(config) not in AutoModelForCausalLM._model_mapping:
        raise ValueError(
            f"transformers loads no text-only model from a {config.model_type} checkpoint; "
            f"load it with task={IMAGE_TEXT!r}"
        )


def is_text_alone(config: Any, task: str) -> bool:
    """Whether a task loads a wrapper's text model alone; for text generation some are whole (Gemma 3)."""
    if task == IMAGE_TEXT:
        return False
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    whole = AutoModelForImageTextToText._model_mapping.get(type(config), None)
    return whole is None or AutoModelForCausalLM._model_mapping.get(type(config), None) is not whole


def auto_class(task: str) -> str:
    """The name of transformers' auto class for a task."""
    return "AutoModelForImageTextToText" if task == IMAGE_TEXT else "AutoModelForCausalLM"


def load_preprocessor(checkpoint: Any, task: str, options: dict[str, Any], tokenizer_kwargs: dict[str, Any]) -> Any:
    """The processor (a tokenizer, for a text task) beside a checkpoint's weights; ``None`` where there is none."""
    if not isinstance(checkpoint, (str, Path)) or _holds_weights_alone(Path(checkpoint)):
        return None
    from transformers import AutoProcessor, AutoTokenizer

    auto = AutoProcessor if task == IMAGE_TEXT else AutoTokenizer
    given = {key: options[key] for key in CONFIG_OPTIONS if options.get(key) is not None}
    try:
        return auto.from_pretrained(str(checkpoint), **given, **tokenizer_kwargs)
    except OSError:
        return None


def _holds_weights_alone(folder: Path) -> bool:
    """Whether a folder has a model's files and none of a processor or tokenizer, of which transformers makes one up."""
    names = [found.name for found in folder.iterdir()] if folder.is_dir() else []
    weights = ("config.json", "generation_config.json", "model.safetensors", "model-", "pytorch_model")
    return "config.json" in names and all(name.startswith(weights) for name in names)


@dataclass
class NoPipeline:
    """Stands for transformers' pipeline where there is no processor to build one with.

    Args:
        model: The module.
        task: The task it was loaded for.
    """

    model: torch.nn.Module
    task: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a pipeline encodes its own input."""
        raise ValueError("pipe() needs a processor; pass `processor=` when you load the model")


def slot(processor: Any) -> str:
    """The keyword that nnsight takes a preprocessor by: a bare tokenizer is one, a processor holds several."""
    from transformers import PreTrainedTokenizerBase

    return "tokenizer" if isinstance(processor, PreTrainedTokenizerBase) else "processor"
