"""Softmax attention on transformers' attention interface: what it adds, and its interior."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from belvedere.components.layer import Block, added
from belvedere.components.pattern import Call, Softmax, pattern_value
from belvedere.components.standard import Standard, blocks
from belvedere.descriptors import absent, heads_first, value
from belvedere.layouts import Gate, HeadOutputs, Keys, Pattern, Queries, Residual, Values
from belvedere.select import Argument, First

__all__ = [
    "Attention",
    "GatedAttention",
    "Mixer",
    "beside_each_other",
    "result_location",
    "written_probabilities",
    "written_scores",
]


class Mixer(Standard):
    """What mixes positions in a block: softmax attention, or a recurrent mixer in its place."""

    @property
    def layer(self) -> Block:
        """The block that this is a part of."""
        above = self.host
        assert isinstance(above, Block), "a mixer is always built inside a block"
        return above

    def only(self, part: str, what: str) -> str:
        """The reason why a value of another kind of mixer is not here, naming the blocks that have it."""
        having = self.layer.stack.parts(part)
        out = f"blocks with {part}: {blocks(having)}" if having else f"no block of this model has {part}"
        return f"{what}; {out}"

    @property
    def num_heads(self) -> int:
        """How many heads attend."""
        return int(self.layer.stack.config.num_attention_heads)

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        config = self.layer.stack.config
        own = getattr(self._module, "head_dim", None) or getattr(config, "head_dim", None)
        return int(own or config.hidden_size // self.num_heads)


def result_location(host: Standard) -> str:
    """Where the interface's ``(head outputs, pattern)`` is served."""
    return f"{host.operation_location('attention_interface()')}.output"


def written_scores(host: Standard, scores: Any, served: Any) -> Any:
    """What the interface returns under written scores."""
    return Call.of(served).run(Softmax(scores=scores))


def written_probabilities(host: Standard, probabilities: Any, served: Any) -> Any:
    """What the interface returns under a written pattern."""
    return Call.of(served).run(Softmax(probabilities=probabilities))


def recurrent_only(host: Mixer) -> str:
    """The reason why softmax attention has no value of a recurrent mixer."""
    return host.only("linear_attn", "this block's attention is a softmax over all positions and keeps no state")


class Attention(Mixer):
    """Softmax attention of a text block.

    Read in the order of the forward: queries, keys and values, scores, probabilities, head outputs, the gate where
    there is one, and last what is added. A written pattern passes the point where scores and probabilities are read.
    """

    AXES = {"heads": "num_heads", "kv_heads": "num_kv_heads", "head_dim": "head_dim"}

    @value(":attention_interface().input", select=Argument(1, "query"), description="queries, normed and rotated")
    def attention_queries(self, held: Tensor) -> Queries:
        """The queries that attend: after QK-norm and rotary embedding. The interface call's own argument."""
        return held

    @value(":attention_interface().input", select=Argument(2, "key"), description="keys, normed and rotated")
    def attention_keys(self, held: Tensor) -> Keys:
        """The keys attended to, after QK-norm and rotary embedding, with those that a cache holds before them.

        Grouped heads are not repeated: head ``h`` reads key head ``h // (heads // kv_heads)``.
        """
        return held

    @value(":attention_interface().input", select=Argument(3, "value"), description="values")
    def attention_values(self, held: Tensor) -> Values:
        """The values that the pattern mixes, with those that a cache holds before them; grouped as the keys are."""
        return held

    @pattern_value(
        ":attention_interface().input",
        result=result_location,
        replace=written_scores,
        description="what the softmax is of",
    )
    def attention_scores(self, served: Any) -> Pattern:
        """Scaled and masked scores: ``softmax(attention_scores) == attention_probabilities``.

        Recomputed from the call's own arguments whatever kernel the model runs; the forward keeps that kernel. A write
        replaces this block's head outputs by those of the written scores.
        """
        return Call.of(served).scores()

    @pattern_value(
        ":attention_interface().input", result=result_location, replace=written_probabilities, description="the pattern"
    )
    def attention_probabilities(self, served: Any) -> Pattern:
        """The pattern: ``attention_probabilities @ attention_values == attention_head_outputs``.

        Recomputed from the call's own arguments whatever kernel the model runs; the forward keeps that kernel. A write
        replaces this block's head outputs by those of the written pattern, whose rows need not sum to 1.
        """
        return Call.of(served).probabilities()

    @value(":attention_interface().output", select=First(), restore=heads_first, description="what each head reads out")
    def attention_head_outputs(self, held: Tensor) -> HeadOutputs:
        """``attention_probabilities @ attention_values``, before the output projection (and before a gate)."""
        return held.transpose(1, 2)

    attention_gate = absent(
        "attention_gate",
        "this attention has no output gate; o_proj reads attention_head_outputs as they are",
        "the gate on the head outputs",
    )

    @value(added, select=First(), description="what attention adds to the stream")
    def attention_output(self, held: Tensor) -> Residual:
        """What attention adds to the stream: ``layer_input + attention_output + mlp_output == layer_output``."""
        return held

    decays = absent("decays", recurrent_only, "the log decay of the state at each position")
    betas = absent("betas", recurrent_only, "the write strength at each position")
    state_input = absent("state_input", recurrent_only, "the state before the first position")
    state_output = absent("state_output", recurrent_only, "the state after the last position")
    state_head_outputs = absent("state_head_outputs", recurrent_only, "what each head reads out of its state")

    def _own_name(self) -> str:
        return "self_attn"

    @property
    def num_kv_heads(self) -> int:
        """How many key and value heads there are; a group of query heads shares one."""
        # A model's blocks may differ, so the block's own number of heads that share one comes first.
        groups = getattr(self._module, "num_key_value_groups", None)
        if groups:
            return self.num_heads // int(groups)
        config = self.layer.stack.config
        return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def beside_each_other(host: Mixer, edited: Any, held: Any) -> Any:
    """The way back for heads read apart: side by side again."""
    return edited.transpose(1, 2).reshape(held.shape)


class GatedAttention(Attention):
    """Softmax attention whose head outputs pass a sigmoid gate before the output projection (Qwen3.5)."""

    @value(":torch.sigmoid().output", restore=beside_each_other, description="the sigmoid gate on the head outputs")
    def attention_gate(self, held: Tensor) -> Gate:
        """The gate: ``o_proj(attention_head_outputs * attention_gate) == attention_output``, heads flattened."""
        return held.view(*held.shape[:-1], self.num_heads, -1).transpose(1, 2)
