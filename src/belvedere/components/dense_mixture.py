"""A mixture all of whose experts are called on every token, with what is scaled going in (Llama 4).

The router returns ``(scores, logits)``: a score for each chosen expert and 0 for every other. A token is multiplied by
its score for an expert before the expert takes it, so an expert that was not chosen takes zeros and returns zeros. The
shared expert's result is the tensor that all others are added to, in place, after it was returned.
"""

from __future__ import annotations

from typing import Any

import torch
from greenlet import getcurrent
from torch import Tensor

from belvedere.components.mlp import Mlp
from belvedere.descriptors import KeptValue, RebuiltValue, as_held, value
from belvedere.layouts import ExpertIndices, ExpertOutputs, ExpertWeights, Residual, RouterLogits
from belvedere.select import First, Item

__all__ = ["DenseMixture"]


def scored(host: DenseMixture, edited: Any, held: Any) -> Tensor:
    """The router's scores under written weights of the chosen experts."""
    scores: Tensor = held.scatter(1, host.chosen(held), edited.flatten(0, 1))
    return scores


def sent(host: DenseMixture, edited: Any, held: Any) -> Tensor:
    """The router's scores where the chosen experts' are given to others."""
    weights = held.gather(1, host.chosen(held))
    scores: Tensor = torch.zeros_like(held).scatter(1, edited.flatten(0, 1), weights)
    return scores


def returned(host: DenseMixture, edited: Any, held: Any) -> Tensor:
    """What all experts return under written outputs of the chosen ones."""
    rows = host.by_expert(held.clone())
    own = host.own_rows(rows)
    own.copy_(own.scatter(0, host.places(own), edited.permute(2, 0, 1, 3)))
    return rows.flatten(0, 2)


def copied(host: DenseMixture, edited: Any, held: Any) -> Tensor:
    """A copy, which the model may add to in place."""
    copy: Tensor = edited.reshape(held.shape).clone()
    return copy


class DenseMixture(Mlp):
    """A mixture whose experts take scaled tokens, every expert all of them (Llama 4).

    ``expert_outputs.sum(-2) + shared_expert_output == mlp_output``: the weight is in an expert's output already, for
    it multiplied what the expert took. The parts are `router`, `experts` and `shared_expert`, by native name.
    """

    AXES = {"experts": "num_experts", "routed": "num_routed"}
    NOTES = {"router_logits": "the router returns them beside the choice that it has made; write expert_weights"}

    @value(
        "router.output", kind=KeptValue, select=First(), restore=sent, description="the experts that a token is sent to"
    )
    def expert_indices(self, scores: Tensor) -> ExpertIndices:
        """The experts that each token is sent to, by falling score. A write sends it elsewhere, with the same scores.

        Can be read at any later point too.
        """
        return self.by_position(self.chosen(scores))

    @value("router.output", select=Item(1), restore=as_held, description="the router's score for every expert")
    def router_logits(self, held: Tensor) -> RouterLogits:
        """The router's score for every expert, before the choice and its sigmoid.

        For reading: the router returns it beside the choice that it has made, so a write changes nothing but what the
        model reports. Write `expert_weights` and `expert_indices`.
        """
        return self.by_position(held)

    @value(
        "router.output", kind=RebuiltValue, select=First(), restore=scored, description="the weights of those experts"
    )
    def expert_weights(self, scores: Tensor) -> ExpertWeights:
        """What a token is multiplied by before each of those experts takes it: a sigmoid of its `router_logits`."""
        return self.by_position(scores.gather(1, self.chosen(scores)))

    @value(
        "experts.output", kind=RebuiltValue, restore=returned, description="what each of those experts returns, weighed"
    )
    def expert_outputs(self, held: Tensor) -> ExpertOutputs:
        """What each chosen expert returns of the token times its weight: what it adds to `mlp_output`."""
        rows = self.own_rows(self.by_expert(held))
        return rows.gather(0, self.places(rows)).permute(1, 2, 0, 3)

    @value(
        "shared_expert.output",
        kind=RebuiltValue,
        restore=copied,
        description="what the expert that all tokens pass adds",
    )
    def shared_expert_output(self, held: Tensor) -> Residual:
        """What the expert that every token passes adds; the model adds the others to a copy."""
        return self.by_position(held)

    @value("output", select=First(), restore=as_held, description="what the mixture adds to the stream")
    def mlp_output(self, held: Tensor) -> Residual:
        """What the mixture adds to the stream: ``layer_input + attention_output + mlp_output == layer_output``."""
        return self.by_position(held)

    def by_position(self, flat: Tensor) -> Tensor:
        """Rows of flat tokens as ``[batch, seq, ...]``, a view."""
        return flat.view(*self.root.input_size, *flat.shape[1:])

    def chosen(self, scores: Tensor) -> Tensor:
        """The experts of each token, from their scores; those of the others are 0."""
        return scores.topk(self.num_routed, dim=1).indices

    def places(self, rows: Tensor) -> Tensor:
        """The chosen experts as an index into the expert axis of ``[experts, batch, seq, hidden]``."""
        indices: Tensor = self.expert_indices.permute(2, 0, 1)
        return indices[..., None].expand(*indices.shape, rows.shape[-1])

    def by_expert(self, held: Tensor) -> Tensor:
        """What all experts return as ``[experts, batch, seq, hidden]``, of every invoke, a view."""
        return held.view(self.num_experts, -1, self.root.input_size[1], held.shape[-1])

    def own_rows(self, rows: Tensor) -> Tensor:
        """The rows of the running invoke, of ``[experts, batch, seq, hidden]``."""
        group = getcurrent().mediator().batch_group
        if group is None or not self.interleaver.batcher.batching:
            return rows
        return rows.narrow(1, *group)

    @property
    def num_experts(self) -> int:
        """How many experts there are."""
        return int(self.experts._module.num_experts)

    @property
    def num_routed(self) -> int:
        """How many experts a token is sent to."""
        return int(self._module.top_k)
