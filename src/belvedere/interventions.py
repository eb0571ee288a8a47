"""What one does with a model inside a trace, beside reading and writing its values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from belvedere.errors import WriteError
from belvedere.head import as_logits

__all__ = ["Interventions"]


class Interventions:
    """Methods of the root that act on the running forward.

    Attributes:
        layers: The text model's blocks.
        norm: The text model's final norm.
        lm_head: The unembedding.
        num_layers: How many blocks the text model has.
        hidden_size: The width of its stream.
        config: Its config.
    """

    layers: Any
    norm: Any
    lm_head: Any
    num_layers: int
    hidden_size: int
    config: Any
    _module: Any

    def skip_layers(self, start: int, stop: int, replacement: torch.Tensor | None = None) -> None:
        """Inside a trace: run none of the text blocks ``start`` to ``stop``, both included.

        Args:
            start: The first block to skip.
            stop: The last block to skip.
            replacement: What leaves the last one, ``[batch, seq, hidden]``; by default what enters the first.
        """
        if not 0 <= start <= stop < self.num_layers:
            raise WriteError(f"blocks {start} to {stop} are not a run of 0 to {self.num_layers - 1}")
        for number in range(start, stop + 1):
            reason = self.layers[number].needed(stop)
            if reason is not None:
                raise WriteError(f"layers[{number}] cannot be skipped: {reason}")
        stream = self.layers[start].layer_input if replacement is None else replacement
        for number in range(start, stop + 1):
            self.layers[number].skip(stream)

    def steer(
        self, layers: int | Iterable[int], vector: torch.Tensor, factor: float = 1.0, positions: Any = None
    ) -> None:
        """Inside a trace: add a vector to the stream that leaves some text blocks.

        Args:
            layers: A block, or several.
            vector: ``[hidden]``, or anything that broadcasts to ``[batch, positions, hidden]``.
            factor: What it is multiplied by.
            positions: Which positions: an index into the sequence, or a mask ``[batch, seq]``; all by default.
        """
        numbers = sorted(layers) if isinstance(layers, Iterable) else [layers]
        strange = [number for number in numbers if not 0 <= number < self.num_layers]
        if strange:
            raise WriteError(f"there is no block {strange[0]} to steer; the text model has 0 to {self.num_layers - 1}")
        if vector.ndim and vector.shape[-1] not in (1, self.hidden_size):
            raise WriteError(f"a vector of {vector.shape[-1]} cannot be added to a stream of {self.hidden_size}")
        for number in numbers:
            stream = self.layers[number].layer_output.clone()
            added = (factor * vector).to(stream.device, stream.dtype)
            if positions is None:
                stream += added
            elif isinstance(positions, torch.Tensor) and positions.dtype == torch.bool:
                stream[positions] += added
            else:
                stream[:, positions] += added
            self.layers[number].layer_output = stream

    def project_on_vocab(self, stream: torch.Tensor) -> torch.Tensor:
        """Logits of a text stream by the model's own final norm and head, with its scale or softcap: the logit lens.

        Args:
            stream: ``[..., hidden]``, from any block.

        Returns:
            ``[..., vocab]``. At the last block's ``layer_output`` it is ``logits``.
        """
        # An offloaded head is moved to its inputs by its own hooks.
        device = stream.device if self.lm_head.device.type == "meta" else self.lm_head.device
        projected: torch.Tensor = self.lm_head(self.norm(stream.to(device)))
        return as_logits(projected, self._module, self.config)
