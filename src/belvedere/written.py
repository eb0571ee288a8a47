"""What a user wrote, checked against what is there."""

from typing import Any

import torch

from belvedere import layouts
from belvedere.errors import WriteError

__all__ = ["as_written"]


def as_written(value: Any, view: Any, path: str, layout: str) -> Any:
    """What was written, checked against what is there: a tensor of that shape, or a number for all of it.

    Raises:
        WriteError: The shape is another one, or the value is no tensor.
    """
    if not isinstance(view, torch.Tensor):
        if isinstance(value, (list, tuple)) and len(value) == len(view):
            return type(view)(as_written(one, was, path, layout) for one, was in zip(value, view, strict=True))
        raise WriteError(f"{path} is a {type(view).__name__} of {len(view)} tensors; write one of the same length")
    if isinstance(value, (int, float)):
        return torch.full_like(view, value)
    if not isinstance(value, torch.Tensor):
        raise WriteError(f"{path} takes a tensor or a number, not {type(value).__name__}")
    if value.shape != view.shape:
        raise WriteError(
            f"{path} is {layout}{layouts.shape(layout)} = {tuple(view.shape)} here; got {tuple(value.shape)}"
        )
    return value.to(view.device, view.dtype)
