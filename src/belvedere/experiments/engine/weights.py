"""What tells a model's weights from others."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

__all__ = ["weights_digest"]

#: How many numbers of each tensor are looked at by their place; all of them are summed up.
SAMPLES = 256
#: A number's bits as an integer, by its bytes: sums of integers are the same on every machine.
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.no_grad()
def weights_digest(module: torch.nn.Module) -> str:
    """A digest of every parameter and saved buffer: name, type, shape, the sum of its bits, and some of its numbers."""
    made = hashlib.sha256()
    seen: set[int] = set()
    for name, held in module.state_dict(keep_vars=True).items():
        if not isinstance(held, Tensor) or id(held) in seen:
            continue
        seen.add(id(held))
        made.update(f"{name} {held.dtype} {tuple(held.shape)}".encode())
        if held.device.type != "meta" and held.element_size() in BITS:
            bits = held.detach().view(BITS[held.element_size()])
            rows = bits.flatten()[:: max(1, held.numel() // SAMPLES)]
            made.update(f"{int(bits.sum(dtype=torch.int64))} {rows.tolist()}".encode())
    return made.hexdigest()
