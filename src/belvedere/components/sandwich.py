"""Blocks whose attention and MLP pass a norm (or a dropout) on their way to the stream: its output is what is added."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from belvedere.components.attention import Attention
from belvedere.components.mlp import Mlp
from belvedere.components.reach import as_patches, unseen
from belvedere.components.standard import Standard
from belvedere.components.vision_block import VisionAttention, VisionMlp
from belvedere.descriptors import as_held, value
from belvedere.layouts import Patches, Residual
from belvedere.select import First

__all__ = ["SandwichAttention", "SandwichMlp", "SandwichVisionAttention", "SandwichVisionMlp"]


def after(host: Any) -> tuple[Standard, str]:
    """Where what is added is served: the norm beside the part, in the same block."""
    return host.host, f"{host.AFTER}.output"


class SandwichAttention(Attention):
    """Softmax attention whose result is normed before it is added (Gemma 3).

    Attributes:
        AFTER: What it passes last before it is added, by its native name in the block.
    """

    AFTER: ClassVar[str] = "post_attention_layernorm"

    @value(after, select=First(), description="what attention adds, past its norm")
    def attention_output(self, held: Tensor) -> Residual:
        """What attention adds to the stream, after its norm.

        ``layer_input + attention_output + mlp_output == layer_output``. Before the norm it is ``self_attn.output``.
        """
        return held


class SandwichMlp(Mlp):
    """A dense MLP whose result is normed before it is added (Gemma 3).

    Attributes:
        AFTER: What it passes last before it is added, by its native name in the block.
    """

    AFTER: ClassVar[str] = "post_feedforward_layernorm"

    @value(after, select=First(), description="what the MLP adds, past its norm")
    def mlp_output(self, held: Tensor) -> Residual:
        """What the MLP adds to the stream, after its norm; before it, ``mlp.output``."""
        return held


class SandwichVisionAttention(VisionAttention):
    """Attention of a tower block whose result is normed before it is added (Gemma 4).

    Attributes:
        AFTER: What it passes last before it is added, by its native name in the block.
    """

    AFTER: ClassVar[str] = "post_attention_layernorm"

    @value(after, select=First(), restore=as_held, unavailable=unseen, description="what attention adds, past its norm")
    def attention_output(self, held: Tensor) -> Patches:
        """What attention adds to the tower's stream, after its norm; before it, ``self_attn.output``."""
        return as_patches(held)


class SandwichVisionMlp(VisionMlp):
    """An MLP of a tower block whose result is normed before it is added (Gemma 4).

    Attributes:
        AFTER: What it passes last before it is added, by its native name in the block.
    """

    AFTER: ClassVar[str] = "post_feedforward_layernorm"

    @value(after, select=First(), restore=as_held, unavailable=unseen, description="what the MLP adds, past its norm")
    def mlp_output(self, held: Tensor) -> Patches:
        """What the MLP adds to the tower's stream, after its norm; before it, ``mlp.output``."""
        return as_patches(held)
