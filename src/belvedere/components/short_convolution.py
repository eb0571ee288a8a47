"""A short convolution in the place of attention: each position mixes with the few before it, channel by channel."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from belvedere.components.attention import Mixer
from belvedere.descriptors import absent, value
from belvedere.layouts import Residual
from belvedere.select import First

__all__ = ["ShortConvolution"]


def attending_only(host: Mixer) -> str:
    """The reason why a short convolution has no value of an attention."""
    return host.only(
        "self_attn", "this block's mixer is a short convolution, which has no heads and attends to nothing"
    )


def recurrent_only(host: Mixer) -> str:
    """The reason why a short convolution has no value of a recurrent mixer."""
    return host.only("linear_attn", "this block's mixer is a short convolution and keeps no state of a delta rule")


class ShortConvolution(Mixer):
    """A gated short convolution (``Lfm2ShortConv``), which LFM2 has in most blocks in the place of attention."""

    attention_queries = absent("attention_queries", attending_only, "what attends")
    attention_keys = absent("attention_keys", attending_only, "what is attended to")
    attention_values = absent("attention_values", attending_only, "what a pattern mixes")
    attention_scores = absent("attention_scores", attending_only, "what the softmax is of")
    attention_probabilities = absent("attention_probabilities", attending_only, "the pattern")
    attention_head_outputs = absent("attention_head_outputs", attending_only, "what each head reads out")
    attention_gate = absent("attention_gate", attending_only, "the gate on the head outputs")

    @value("output", select=First(), description="what the convolution adds to the stream")
    def attention_output(self, held: Tensor) -> Residual:
        """What this block's mixer adds to the stream, in attention's place.

        ``layer_input + attention_output + mlp_output == layer_output``. The module's own tensor: edits in place and
        assignment both reach the stream.
        """
        return held

    decays: Any = absent("decays", recurrent_only, "the log decay of the state at each position")
    betas: Any = absent("betas", recurrent_only, "the write strength at each position")
    state_input: Any = absent("state_input", recurrent_only, "the state before the first position")
    state_output: Any = absent("state_output", recurrent_only, "the state after the last position")
    state_head_outputs: Any = absent("state_head_outputs", recurrent_only, "what each head reads out of its state")

    def _own_name(self) -> str:
        return "conv"
