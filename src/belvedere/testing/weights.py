"""Seeded random weights under which nothing is near zero or one, so that a wrong decomposition shows."""

from typing import Any

import torch

__all__ = ["randomize"]


def randomize(module: Any, seed: int = 1) -> Any:
    """Fill every parameter, and every float buffer that a checkpoint saves, with seeded noise.

    Args:
        module: A transformers model, changed in place.
        seed: Of the noise.

    Returns:
        The module, in evaluation mode.
    """
    made = torch.Generator().manual_seed(seed)
    saved = set(module.state_dict())
    buffers = [held for name, held in module.named_buffers() if name in saved and held.is_floating_point()]
    with torch.no_grad():
        for held in [*module.parameters(), *buffers]:
            noise = torch.randn(held.shape, generator=made)
            held.copy_(noise * 0.2 + (held.ndim <= 1) * 0.5)
    return module.eval()
