"""An MLP of the text model: what it adds, and why a dense one has no routing."""

from __future__ import annotations

from torch import Tensor

from belvedere.components.layer import added
from belvedere.components.standard import Standard
from belvedere.descriptors import absent, value
from belvedere.layouts import Residual
from belvedere.select import First

__all__ = ["Mlp"]

DENSE = "this MLP is dense and routes nothing; read mlp_output"


class Mlp(Standard):
    """A dense MLP. The values of a mixture come first, in the order of its forward."""

    router_logits = absent("router_logits", DENSE, "the router's score for every expert")
    expert_indices = absent("expert_indices", DENSE, "the experts that a token is sent to")
    expert_weights = absent("expert_weights", DENSE, "the weights of the experts that a token is sent to")
    expert_outputs = absent("expert_outputs", DENSE, "what each of those experts returns")
    shared_expert_output = absent("shared_expert_output", DENSE, "what the expert that every token passes adds")

    @value(added, select=First(), description="what the MLP adds to the stream")
    def mlp_output(self, held: Tensor) -> Residual:
        """What the MLP adds to the stream: ``layer_input + attention_output + mlp_output == layer_output``.

        The module's own tensor: edits in place and assignment both reach the stream.
        """
        return held

    def _own_name(self) -> str:
        return "mlp"
