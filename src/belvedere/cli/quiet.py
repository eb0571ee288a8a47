"""A command's output is its own: notes and bars of the libraries below are held back while it runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers and the Hub client report errors only, and restore their own levels afterwards.

    Held back are notes on kernels that are not installed, on generation settings and on devices, and the bars of weight
    loading. Nothing outside of these libraries is touched.
    """
    hub: Any = import_module("huggingface_hub.utils.logging")
    transformers: Any = import_module("transformers.utils.logging")
    levels = transformers.get_verbosity(), hub.get_verbosity()
    bars = transformers.is_progress_bar_enabled()
    transformers.set_verbosity_error()
    transformers.disable_progress_bar()
    hub.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(transformers|huggingface_hub)\b")
            yield
    finally:
        transformers.set_verbosity(levels[0])
        hub.set_verbosity(levels[1])
        if bars:
            transformers.enable_progress_bar()
