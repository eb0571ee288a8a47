"""Notes on kernels that this machine cannot run.

Where a recurrent mixer's fused kernel is not installed, transformers runs its reference implementation and advises to
install the kernel. That is good advice on a machine with a GPU, which those kernels need, and none on another.
"""

from __future__ import annotations

import logging
from functools import cache

__all__ = ["Advice", "hold_back_vain_advice"]

ADVISER = "transformers.integrations.hub_kernels"
ADVICE = "is falling back to its reference PyTorch implementation"


class Advice(logging.Filter):
    """Lets pass all but the advice to install a kernel, where no GPU could run it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is shown."""
        import torch

        return ADVICE not in record.getMessage() or torch.accelerator.is_available()


@cache
def hold_back_vain_advice() -> None:
    """Add `Advice` to the one logger that gives it; nothing else of transformers is touched."""
    logging.getLogger(ADVISER).addFilter(Advice())
