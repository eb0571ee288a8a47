"""A dense MLP with a mixture of experts beside it in the block; their sum passes a norm (Gemma 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from belvedere.components.choice import Having
from belvedere.components.layer import added
from belvedere.components.mixture import Mixture
from belvedere.components.standard import Standard
from belvedere.descriptors import absent, as_held, value
from belvedere.layouts import Residual, RouterLogits
from belvedere.select import First

__all__ = ["Beside", "MixtureBeside"]


@dataclass(frozen=True)
class Beside(Having):
    """In an ``ENVOYS`` table: one envoy for a module with a part beside it in the block, another for one without."""

    def __call__(self, module: Any, **kwargs: Any) -> Standard:
        """The module's envoy, chosen by what stands beside it."""
        chosen = self.envoy if self.part in kwargs["parent"]._module._modules else self.otherwise
        return chosen(module, **kwargs)


def scores(host: MixtureBeside) -> tuple[Standard, str]:
    """Where the router's scores are, before the softmax in its forward."""
    return host.router, "proj.output"


class MixtureBeside(Mixture):
    """A dense MLP with a mixture beside it; router and experts are the block's (Gemma 4).

    The mixture reads the stream, not what the MLP reads. Each of the two passes a norm, and so does their sum, which is
    what is added::

        dense = post_feedforward_layernorm_1(mlp.output)
        mixed = post_feedforward_layernorm_2((expert_weights[..., None] * expert_outputs).sum(-2))
        post_feedforward_layernorm(dense + mixed) == mlp_output
    """

    NOTES: ClassVar[dict[str, str]] = {}

    @value(scores, restore=as_held, description="the router's score for every expert")
    def router_logits(self, held: Tensor) -> RouterLogits:
        """The router's score for every expert, before its softmax; the choice is made of it, so a write changes it."""
        return self.by_position(held)

    shared_expert_output: Any = absent(
        "shared_expert_output",
        "the MLP that every token passes stands beside the mixture and is normed apart; read mlp.output",
        "what the shared expert adds",
    )

    @value(added, select=First(), description="what MLP and mixture add, past their norm")
    def mlp_output(self, held: Tensor) -> Residual:
        """What MLP and mixture add to the stream together, after the norm of their sum."""
        return held

    @property
    def router(self) -> Any:
        """The block's router."""
        return vars(self.host)["router"]

    @property
    def experts(self) -> Any:
        """The block's experts."""
        return vars(self.host)["experts"]

    @property
    def num_routed(self) -> int:
        """How many experts a token is sent to."""
        return int(self.router._module.config.top_k_experts)
