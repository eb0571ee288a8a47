"""Multi-head latent attention: a token's keys and values are expanded from one small vector, which the cache keeps."""

from __future__ import annotations

from torch import Tensor

from belvedere.components.attention import Attention
from belvedere.descriptors import heads_first, value
from belvedere.layouts import LatentHeadOutputs, LatentValues
from belvedere.select import Argument, First

__all__ = ["LatentAttention"]


class LatentAttention(Attention):
    """Softmax attention whose keys and values come out of a latent (DeepSeek-V2 and V3, Mistral 4).

    The cache keeps the latent, and the forward expands it: the keys and values that attend are whole, a head's own.
    A head's values are not as wide as its queries and keys.
    """

    AXES = {**Attention.AXES, "value_dim": "value_dim"}

    @value(":attention_interface().input", select=Argument(3, "value"), description="values, out of the latent")
    def attention_values(self, held: Tensor) -> LatentValues:
        """The values that the pattern mixes, expanded from the latent, with those that a cache holds before them."""
        return held

    @value(":attention_interface().output", select=First(), restore=heads_first, description="what each head reads out")
    def attention_head_outputs(self, held: Tensor) -> LatentHeadOutputs:
        """``attention_probabilities @ attention_values``, before the output projection."""
        return held.transpose(1, 2)

    @property
    def head_dim(self) -> int:
        """The width of one head's queries and keys: what is rotated of them, and what is not."""
        return int(self._module.qk_head_dim)

    @property
    def value_dim(self) -> int:
        """The width of one head's values."""
        return int(self._module.v_head_dim)
