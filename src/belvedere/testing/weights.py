"""Seeded random weights under which nothing is near zero or one, so that a wrong decomposition shows."""

from typing import Any

import torch

__all__ = ["randomize"]


def randomize(module: Any, seed: int = 1) -> Any:
    """Fill every parameter, and every float buffer that starts as a constant gate or scale, with seeded noise.

    Args:
        module: A transformers model, changed in place.
        seed: Of the noise.

    Returns:
        The module, in evaluation mode.
    """
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=made)
            parameter.copy_(noise * 0.2 + (parameter.ndim <= 1) * 0.5)
    return module.eval()
