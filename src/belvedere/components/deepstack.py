"""Tower features that are added to the text stream between blocks (DeepStack: Qwen3-VL and its kin).

The text stack's own forward adds them, by a method that it calls after some of its blocks: so what leaves such a block
is not what enters the next one.
"""

from __future__ import annotations

from torch import Tensor

from belvedere.components.layer import Layer
from belvedere.components.reach import unseen
from belvedere.components.stack import Text
from belvedere.components.standard import Standard, blocks
from belvedere.descriptors import value
from belvedere.layouts import ImageFeatures
from belvedere.select import Argument

__all__ = ["DeepstackLayer", "DeepstackText"]

PROCESS = "self._deepstack_process()#"


def after_block(host: DeepstackLayer) -> tuple[Standard, str]:
    """The call that adds features after this block."""
    return host.stack, f":{PROCESS}{host.number}.input"


def no_features(host: DeepstackLayer) -> str | None:
    """The reason, where no features are added after this block."""
    count = host.stack.num_deepstack
    if unseen(host) is None and host.number >= count:
        return f"no tower features are added after this block; blocks with deepstack_output: {blocks([*range(count)])}"
    return unseen(host)


class DeepstackText(Text):
    """A text stack that adds features of several tower blocks after its own first blocks."""

    OPERATIONS = (PROCESS,)
    IMAGE_OPERATIONS = (PROCESS,)

    @property
    def num_deepstack(self) -> int:
        """After how many of its blocks features are added."""
        return len(self.root.source_config.vision_config.deepstack_visual_indexes)


class DeepstackLayer(Layer):
    """A text block after which tower features are added to the stream at the image tokens.

    ``layers[i + 1].layer_input == layers[i].layer_output``, plus ``layers[i].deepstack_output`` at the image tokens.
    """

    ENTERS = ("deepstack_output",)

    @value(after_block, select=Argument(2), unavailable=no_features, description="tower features added after the block")
    def deepstack_output(self, held: Tensor) -> ImageFeatures:
        """The tower features that are added to the stream after this block, one row per image token, flat.

        ``layers[i + 1].layer_input[mask] == layers[i].layer_output[mask] + layers[i].deepstack_output`` with ``mask``
        the image tokens' (and the videos'). Edits in place and assignment both reach the next block.
        """
        return held

    def idle(self, name: str) -> str | None:
        """Why the input of the running trace adds no features after this block: it shows no picture."""
        reason: str | None = self.root.vision.idle(name) if name == "deepstack_output" else super().idle(name)
        return reason
