"""Blocks that add a third term, made from the token's own input to that block, and scale the sum (Gemma 4)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from belvedere.components.sandwich import SandwichLayer
from belvedere.components.standard import blocks
from belvedere.descriptors import value
from belvedere.layouts import PerLayerInput, Residual
from belvedere.select import Argument, First

__all__ = ["ScaledLayer"]


def no_per_layer_input(host: Any) -> str | None:
    """The reason, where the config gives the blocks no input of their own."""
    if getattr(host._module, "hidden_size_per_layer_input", 0):
        return None
    return "the config has no hidden_size_per_layer_input, so no block has an input of its own; read layer_input"


class ScaledLayer(SandwichLayer):
    """A text block that adds what it makes of an input of its own, and multiplies its stream by a buffer (Gemma 4).

    ``(layer_input + attention_output + mlp_output + per_layer_output) * layer_scalar == layer_output``, where
    ``layer_scalar`` is the module's own buffer. Without an input of its own the block has no third term.

    A late block may attend to the keys and values of an earlier one. They are one tensor: an edit in place at the
    earlier block is seen at the later one, an assignment is not, and a gradient is what all of them give. Such blocks
    need no position before the last, so ``generate`` runs them on the prompt's last one alone.
    """

    AXES = {"per_layer": "per_layer_size"}
    ENTERS = ("per_layer_input",)

    @value(
        "input",
        select=Argument(1, "per_layer_input"),
        unavailable=no_per_layer_input,
        description="the block's own input, beside the stream",
    )
    def per_layer_input(self, held: Tensor) -> PerLayerInput:
        """What the block gets beside the stream: a second embedding of the token, and a projection of the first one.

        The projection is of the embeddings with the image features among them, so a picture enters every block here.
        """
        return held

    @value(
        "post_per_layer_input_norm.output",
        select=First(),
        unavailable=no_per_layer_input,
        description="what the block's own input adds to the stream",
    )
    def per_layer_output(self, held: Tensor) -> Residual:
        """What `per_layer_input`, gated by the stream, adds to it after attention and MLP."""
        return held

    def needed(self, stop: int) -> str | None:
        """Why the blocks after ``stop`` cannot run without this one: they attend to its keys and values."""
        attention = self.self_attn._module
        if not attention.store_full_length_kv:
            return None
        later = [block.self_attn._module for block in self.stack.layers][stop + 1 :]
        kind = attention.layer_type
        sharing = [one.layer_idx for one in later if one.is_kv_shared_layer and one.layer_type == kind]
        if not sharing:
            return None
        return f"its keys and values are those of blocks {blocks(sharing)} too; write what its parts add as 0 instead"

    @property
    def per_layer_size(self) -> int:
        """The width of `per_layer_input`."""
        return int(self._module.hidden_size_per_layer_input)
