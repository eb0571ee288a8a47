"""Blocks whose attention and MLP pass a norm on their way to the stream: that norm's output is what is added."""

from __future__ import annotations

from belvedere.components.layer import Layer
from belvedere.components.vision_block import VisionLayer

__all__ = ["SandwichLayer", "SandwichVisionLayer"]

#: Where each part's norm is, by the names that Gemma gives them.
_NORMED = {"self_attn": "post_attention_layernorm.output", "mlp": "post_feedforward_layernorm.output"}


class SandwichLayer(Layer):
    """A text block that norms what its parts return before it adds it (Gemma 3)."""

    ADDED = _NORMED


class SandwichVisionLayer(VisionLayer):
    """A tower block that norms what its parts return before it adds it (Gemma 4)."""

    ADDED = _NORMED
