"""A mixture of experts: the router's scores, where each token is sent, and what each of those experts returns.

transformers' mixtures share one form: a router returns ``(logits, weights, indices)`` for the flat tokens, and one
module holds all experts and is called as ``experts(tokens, indices, weights)``. What a single expert returns is no
tensor of that forward, so it is recomputed for the blocks that are read, by the same module, one choice at a time.

An expert multiplies the tokens of all rows that are sent to it at once, so a neighbour in the batch can change the last
bits of a row.
"""

from __future__ import annotations

from typing import Any

import torch
from nnsight.intervention.source import install_controller, run_body
from torch import Tensor

from belvedere.components.mlp import Mlp
from belvedere.components.pattern import PatternValue
from belvedere.descriptors import absent, as_held, value
from belvedere.layouts import ExpertIndices, ExpertOutputs, ExpertWeights, Residual, RouterLogits
from belvedere.select import Argument, First

__all__ = ["GatedSharedMixture", "Mixture", "SharedMixture"]


def returned_location(host: Mixture) -> str:
    """Where the sum over each token's experts is served."""
    return f"{host.experts.path}.output"


def weighed(host: Mixture, outputs: Any, served: Any) -> Tensor:
    """The sum over each token's experts under written outputs."""
    _, _, weights = host.routed(served)
    total: Tensor = (outputs.flatten(0, 1) * weights[..., None]).sum(1).to(outputs.dtype)
    return total


class Mixture(Mlp):
    """A mixture whose experts are weighed as they come out (Qwen3-VL-MoE).

    ``(expert_weights[..., None] * expert_outputs).sum(-2)``, with `shared_expert_output` added where there is a shared
    expert, is `mlp_output`. The parts are `router` and `experts` by standard name.
    """

    ROUTES = True
    AXES = {"experts": "num_experts", "routed": "num_routed"}

    NOTES = {"router_logits": "the router returns them beside the choice that it has made; write expert_weights"}

    @value("router.output", select=First(), restore=as_held, description="the router's score for every expert")
    def router_logits(self, held: Tensor) -> RouterLogits:
        """The router's score for every expert, before any softmax or sigmoid.

        For reading: transformers' router returns it beside the choice that it has made, so a write changes nothing but
        what the model reports. Write `expert_weights` and `expert_indices`.
        """
        return self.by_position(held)

    @value("experts.input", select=Argument(1), restore=as_held, description="the experts that a token is sent to")
    def expert_indices(self, held: Tensor) -> ExpertIndices:
        """The experts that each token is sent to; an argument of the experts' call, so a write sends it elsewhere."""
        return self.by_position(held)

    @value("experts.input", select=Argument(2), restore=as_held, description="the weights of those experts")
    def expert_weights(self, held: Tensor) -> ExpertWeights:
        """What each of those experts' outputs is multiplied by; an argument of the experts' call."""
        return self.by_position(held)

    @PatternValue(
        "experts.input",
        returned_location,
        weighed,
        None,
        "what each of those experts returns",
        "the arguments of the experts' own call, by that module, one choice at a time",
    )
    def expert_outputs(self, served: Any) -> ExpertOutputs:
        """What each chosen expert returns, before its weight: recomputed, one choice at a time, by the module itself.

        A write replaces what the experts return together by the weighed sum of what is written.
        """
        tokens, indices, weights = self.routed(served)
        one = torch.ones_like(weights[:, :1])
        each = [self.run_experts(tokens, indices[:, [choice]], one) for choice in range(indices.shape[1])]
        return self.by_position(torch.stack(each, dim=1))

    shared_expert_output: Any = absent(
        "shared_expert_output",
        "this mixture has no expert that every token passes; read expert_outputs",
        "what the shared expert adds",
    )

    @value("output", select=First(), restore=as_held, description="what the mixture adds to the stream")
    def mlp_output(self, held: Tensor) -> Residual:
        """What the mixture adds to the stream: ``layer_input + attention_output + mlp_output == layer_output``."""
        return self.by_position(held) if held.ndim == 2 else held

    def by_position(self, flat: Tensor) -> Tensor:
        """Rows of flat tokens as ``[batch, seq, ...]``, a view."""
        return flat.view(*self.root.input_size, *flat.shape[1:])

    def routed(self, served: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens, the experts chosen for each and their weights, of the experts' call."""
        args, _ = served
        return args[0], args[1], args[2]

    def run_experts(self, tokens: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        """The experts' own forward, whichever kernel it runs, unseen by the trace."""
        state = install_controller(self.experts)
        returned: Tensor = run_body(state, self.experts._module, (tokens, indices, weights), {})
        return returned

    @property
    def num_experts(self) -> int:
        """How many experts there are."""
        return int(self.experts._module.num_experts)

    @property
    def num_routed(self) -> int:
        """How many experts a token is sent to."""
        return int(self.router._module.top_k)


class SharedMixture(Mixture):
    """A mixture beside an expert that every token passes, `shared_experts` by standard name (DeepSeek-V3, GLM-4.5V)."""

    @value("shared_experts.output", select=First(), restore=as_held, description="what the shared expert adds")
    def shared_expert_output(self, held: Tensor) -> Residual:
        """What the expert that every token passes adds to the weighed sum of the others."""
        return self.by_position(held) if held.ndim == 2 else held


class GatedSharedMixture(Mixture):
    """A mixture beside an expert that every token passes, under a sigmoid gate of its own (Qwen3.5-MoE)."""

    @value(":shared_expert_output=[1].output", restore=as_held, description="what the shared expert adds, gated")
    def shared_expert_output(self, held: Tensor) -> Residual:
        """What the shared expert adds to the weighed sum of the others: its output times its gate."""
        return self.by_position(held) if held.ndim == 2 else held
