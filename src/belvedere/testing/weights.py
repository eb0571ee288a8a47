"""Seeded random weights under which nothing is near zero or one, so that a wrong decomposition shows."""

from typing import Any

import torch

__all__ = ["randomize"]


def randomize(module: Any, seed: int = 1) -> Any:
    """Fill every parameter, and every vector among the saved buffers (a gate, a scale, a bias), with seeded noise.

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
        saved = module.state_dict().keys() - dict(module.named_parameters(remove_duplicate=False)).keys()
        for name in sorted(saved):
            buffer = module.get_buffer(name)
            if buffer.is_floating_point() and buffer.ndim == 1:
                buffer.copy_(torch.randn(buffer.shape, generator=made) * 0.2 + 0.5)
    return module.eval()
