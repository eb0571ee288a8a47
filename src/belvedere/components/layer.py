"""A block of the text model: what enters it and what leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from belvedere.components.stack import Stack
from belvedere.components.standard import NoName, Standard, blocks
from belvedere.descriptors import absent, value
from belvedere.layouts import Residual
from belvedere.select import First, FirstArgument

if TYPE_CHECKING:
    from belvedere.components.attention import Attention
    from belvedere.components.mlp import Mlp
    from belvedere.components.recurrent import LinearAttention

__all__ = ["MIXERS", "Block", "Layer", "added"]

ONE_STREAM = "this model's blocks get the stream alone and add attention and MLP to it; read layer_input"
#: The names of what mixes positions in a block, of which a block has one.
MIXERS = ("self_attn", "linear_attn", "cross_attn", "conv")
#: Module names that not every block has.
PARTS = (*MIXERS, "mlp", "input_layernorm", "post_attention_layernorm")


def added(host: Any) -> tuple[Standard, str]:
    """Where what a part adds to the stream is served: its own output, or a place in its block that comes after."""
    place = host.host.added(host.part) if isinstance(host.host, Block) else ""
    return (host.host, place) if place else (host, "output")


class Block(Standard):
    """What a text block and a tower block share: a number, a stack, and parts that not every block has.

    Attributes:
        LIST: The standard name of the list that the block is in.
        ADDED: Where what a part adds is served, by the part's standard name, for parts whose own output the block
            scales, gates or norms before it adds it: a place of the block, such as
            ``":self.lambda_1 * attention_output.output"``.
    """

    LIST: ClassVar[str] = "layers"
    ADDED: ClassVar[dict[str, str]] = {}

    @classmethod
    def operations(cls) -> tuple[str, ...]:
        """The operations of the block's own forward that its parts' values live at."""
        places = (place for place in cls.ADDED.values() if place.startswith(":"))
        return (*super().operations(), *(place[1:].rpartition(".")[0] for place in places))

    def added(self, part: str) -> str:
        """The place in this block where what a part adds is served; empty where that is the part's own output."""
        return self.ADDED.get(part, "")

    @property
    def number(self) -> int:
        """The block's number in its stack."""
        return int(self.path.rpartition(".")[2])

    @property
    def stack(self) -> Stack:
        """The text stack or tower that the block belongs to."""
        above = self.host
        while above is not None and not isinstance(above, Stack):
            above = above.host
        assert above is not None, "a block is always built below a stack"
        return above

    def _own_name(self) -> str:
        return f"{self.LIST}[{self.number}]"

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name not in PARTS or "_child_map" not in self.__dict__:
                raise
            raise NoName(lambda: f"{self.name} has no {name}; {self._having(name)}") from error

    def _having(self, part: str) -> str:
        """Which blocks of the stack have a part."""
        having = self.stack.parts(part)
        return f"blocks with one: {blocks(having)}" if having else "no block of this stack has one"


class Layer(Block):
    """A text block. ``layer_input + attention_output + mlp_output == layer_output``."""

    # A block lacks a part that it has no module for; a notebook completes by these.
    self_attn: Attention
    linear_attn: LinearAttention
    mlp: Mlp

    def needed(self, stop: int) -> str | None:
        """Why the blocks after ``stop`` cannot run without this one; ``None`` where they can."""
        return None

    @value("input", select=FirstArgument(), description="the stream entering the block")
    def layer_input(self, held: Tensor) -> Residual:
        """The stream entering this block.

        On block 0 this is where the image features stand among the token embeddings:
        ``layers[0].layer_input[vision.image_token_mask] == vision.image_features``.
        The model's own tensor: edits in place and assignment both reach the block. It is the tensor that the block
        before returned, so an edit in place is also seen by whoever else reads that one; an assignment is this block's
        alone.
        """
        return held

    per_layer_input: Any = absent("per_layer_input", ONE_STREAM, "the block's own input, beside the stream")
    per_layer_output: Any = absent("per_layer_output", ONE_STREAM, "what the block's own input adds to the stream")

    @value("output", select=First("hidden_states"), description="the stream leaving the block")
    def layer_output(self, held: Tensor) -> Residual:
        """The stream leaving this block.

        ``layer_input + attention_output + mlp_output == layer_output``.
        The model's own tensor: edits in place and assignment both reach the next block.
        """
        return held

    deepstack_output = absent(
        "deepstack_output",
        "image features enter this model once, at the embeddings; read vision.image_features",
        "tower features added to the stream after the block",
    )
