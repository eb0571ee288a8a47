"""A recurrent mixer: the gated delta rule, which keeps a state instead of a pattern.

At each position ``t`` the state ``S`` ``[key_dim, value_dim]`` of a value head is decayed, corrected towards the new
value and read (Yang et al., "Gated Delta Networks", 2024; transformers ``torch_recurrent_gated_delta_rule``)::

    S = exp(decay_t) * S
    S = S + outer(k_t, beta_t * (v_t - k_t @ S))
    out_t = (q_t / sqrt(key_dim)) @ S            with q_t and k_t scaled to length 1
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from belvedere.components.attention import Mixer, beside_each_other
from belvedere.descriptors import absent, heads_first, value
from belvedere.layouts import (
    Betas,
    Decays,
    RecurrentHeadOutputs,
    RecurrentKeys,
    RecurrentQueries,
    RecurrentValues,
    Residual,
    State,
)
from belvedere.select import Argument, First

__all__ = ["LinearAttention"]


def softmax_only(host: Mixer) -> str:
    """The reason why a recurrent mixer has no value of softmax attention."""
    return host.only("self_attn", "this block's mixer is recurrent and builds no pattern over positions")


def as_written_state(host: Mixer, edited: Any, held: Any) -> Any:
    """A state for the delta rule to start from, whether or not there was one."""
    return edited


class LinearAttention(Mixer):
    """A gated DeltaNet mixer (``Qwen3_5GatedDeltaNet`` and its kin)."""

    AXES = {
        "key_heads": "num_key_heads",
        "value_heads": "num_value_heads",
        "key_dim": "key_dim",
        "value_dim": "value_dim",
    }

    NOTES = {"state_output": "only the next step of a generation reads it; write state_input to change this forward"}

    @value(":recurrent_state=.output", restore=as_written_state, description="the state before the first position")
    def state_input(self, held: Tensor | None) -> State:
        """The state that the first position of this forward finds; zeros at the start of a prompt.

        Served where the forward takes it from the cache, so the trace must run with one (the default).
        """
        if held is not None:
            return held
        like = self._module.dt_bias
        rows = self.root.input_size[0]
        sizes = (rows, self.num_value_heads, self.key_dim, self.value_dim)
        return torch.zeros(sizes, device=like.device, dtype=torch.float32)

    @value(":query=.output", restore=heads_first, description="queries, before the scaling to length 1")
    def attention_queries(self, held: Tensor) -> RecurrentQueries:
        """The queries after the short convolution; the delta rule scales them to length 1."""
        return held.transpose(1, 2)

    @value(":key=.output", restore=heads_first, description="keys, before the scaling to length 1")
    def attention_keys(self, held: Tensor) -> RecurrentKeys:
        """The keys after the short convolution; the delta rule scales them to length 1."""
        return held.transpose(1, 2)

    @value(":value=.output", restore=heads_first, description="values")
    def attention_values(self, held: Tensor) -> RecurrentValues:
        """The values after the short convolution. A group of value heads shares one query and key head."""
        return held.transpose(1, 2)

    @value(":beta=.output", restore=heads_first, description="the write strength at each position")
    def betas(self, held: Tensor) -> Betas:
        """How far each position corrects the state towards its value, between 0 and 1."""
        return held.transpose(1, 2)

    @value(":g=.output", restore=heads_first, description="the log decay of the state at each position")
    def decays(self, held: Tensor) -> Decays:
        """The natural logarithm of what the state is multiplied by at each position; never above 0."""
        return held.transpose(1, 2)

    attention_scores = absent("attention_scores", softmax_only, "what the softmax is taken of")
    attention_probabilities = absent("attention_probabilities", softmax_only, "the pattern")
    attention_head_outputs = absent(
        "attention_head_outputs",
        "a recurrent mixer's heads read out of a state; read state_head_outputs, or norm.input before norm and gate",
        "what each head reads out",
    )
    attention_gate = absent(
        "attention_gate",
        "a recurrent mixer's gate is an input of its norm; read norm.inputs",
        "the gate on the head outputs",
    )

    @value(":cache.update_recurrent_state().input", select=Argument(0), description="the state after the last position")
    def state_output(self, held: Tensor) -> State:
        """The state that the last position leaves, which the next step of a generation starts from.

        Served where the forward stores it in the cache, so the trace must run with one (the default). A write changes
        later steps of a generation, not this forward.
        """
        return held

    @value(
        "out_proj.input",
        select=Argument(0),
        restore=beside_each_other,
        description="what each head reads out of its state",
    )
    def state_head_outputs(self, held: Tensor) -> RecurrentHeadOutputs:
        """What each head reads out of its state, normed and gated.

        ``out_proj(state_head_outputs) == attention_output``, heads flattened.
        """
        return held.view(*held.shape[:-1], self.num_value_heads, -1).transpose(1, 2)

    @value("output", select=First(), description="what the mixer adds to the stream")
    def attention_output(self, held: Tensor) -> Residual:
        """What the mixer adds to the stream: ``layer_input + attention_output + mlp_output == layer_output``."""
        return held

    def idle(self, name: str) -> str | None:
        """Why the running trace has no state: it keeps no cache to hold one."""
        given = getattr(self.interleaver.batcher, "keywords", {}).get("use_cache")
        kept = given if given is not None else getattr(self.layer.stack.config, "use_cache", True)
        if name in ("state_input", "state_output") and not kept:
            return "the forward keeps its state in the cache, and use_cache=False keeps none; leave use_cache out"
        return super().idle(name)

    @property
    def num_key_heads(self) -> int:
        """How many query and key heads there are."""
        return int(self._module.num_k_heads)

    @property
    def num_value_heads(self) -> int:
        """How many value heads, and so states, there are."""
        return int(self._module.num_v_heads)

    @property
    def key_dim(self) -> int:
        """The width of one query or key head: the state's rows."""
        return int(self._module.head_k_dim)

    @property
    def value_dim(self) -> int:
        """The width of one value head: the state's columns."""
        return int(self._module.head_v_dim)

    def _own_name(self) -> str:
        return "linear_attn"
