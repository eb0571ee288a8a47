"""An MLP of the text model: what it adds, and why a dense one has no routing."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from belvedere.components.layer import Block, added
from belvedere.components.standard import Standard, blocks
from belvedere.descriptors import absent, value
from belvedere.layouts import Residual
from belvedere.select import First

__all__ = ["Mlp"]


def dense(host: Mlp) -> str:
    """The reason why a dense MLP has no routing, naming the blocks that route, in a stack that has both."""
    block = host.host
    parts = [vars(each).get("mlp") for each in block.stack.layers] if isinstance(block, Block) else []
    routing = [number for number, part in enumerate(parts) if isinstance(part, Mlp) and part.ROUTES]
    out = f"blocks with a mixture: {blocks(routing)}" if routing else "read mlp_output"
    return f"this MLP is dense and routes nothing; {out}"


class Mlp(Standard):
    """A dense MLP. The values of a mixture come first, in the order of its forward.

    Attributes:
        ROUTES: Whether it is a mixture.
    """

    ROUTES: ClassVar[bool] = False

    router_logits = absent("router_logits", dense, "the router's score for every expert")
    expert_indices = absent("expert_indices", dense, "the experts that a token is sent to")
    expert_weights = absent("expert_weights", dense, "the weights of the experts that a token is sent to")
    expert_outputs = absent("expert_outputs", dense, "what each of those experts returns")
    shared_expert_output = absent("shared_expert_output", dense, "what the expert that every token passes adds")

    @value(added, select=First(), description="what the MLP adds to the stream")
    def mlp_output(self, held: Tensor) -> Residual:
        """What the MLP adds to the stream: ``layer_input + attention_output + mlp_output == layer_output``.

        The module's own tensor: edits in place and assignment both reach the stream.
        """
        return held

    def _own_name(self) -> str:
        return "mlp"
