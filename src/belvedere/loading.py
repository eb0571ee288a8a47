"""Config, task and processor of a checkpoint, before any weight loads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

__all__ = ["NoPipeline", "auto_class", "choose_task", "load_preprocessor", "read_config"]

IMAGE_TEXT = "image-text-to-text"
TEXT = "text-generation"
CONFIG_OPTIONS = ("trust_remote_code", "revision", "token", "cache_dir", "subfolder")


def read_config(checkpoint: Any, options: dict[str, Any]) -> Any:
    """A checkpoint's config, from a module, a config object, a config file, a folder or a Hub id.

    Raises:
        FileNotFoundError: There is no such folder, and no such id can be reached.
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
        where = Path(str(checkpoint))
        held = f"it holds {', '.join(sorted(found.name for found in where.iterdir())[:8])}" if where.is_dir() else ""
        raise FileNotFoundError(
            f"no config at {str(checkpoint)!r}; pass a folder with a config.json, a Hub id that can be reached, "
            f"or a module{'; ' + held if held else ''}"
        ) from error


def choose_task(family: Any, task: str | None) -> str:
    """The task that a checkpoint loads under: the asked one, else what its config is made for."""
    return task or (TEXT if family.wrapper is None else IMAGE_TEXT)


def auto_class(task: str) -> str:
    """The name of transformers' auto class for a task."""
    return "AutoModelForImageTextToText" if task == IMAGE_TEXT else "AutoModelForCausalLM"


def load_preprocessor(checkpoint: Any, task: str, options: dict[str, Any], tokenizer_kwargs: dict[str, Any]) -> Any:
    """The processor (or tokenizer, for a text task) that lies beside a checkpoint's weights; ``None`` where none does."""
    if not isinstance(checkpoint, (str, Path)):
        return None
    from transformers import AutoProcessor, AutoTokenizer

    auto = AutoProcessor if task == IMAGE_TEXT else AutoTokenizer
    given = {key: options[key] for key in CONFIG_OPTIONS if options.get(key) is not None}
    try:
        return auto.from_pretrained(str(checkpoint), **given, **tokenizer_kwargs)
    except OSError:
        return None


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
