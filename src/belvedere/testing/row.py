"""A row of the zoo: how a tiny checkpoint is made, and what is true of its native modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

__all__ = ["MIXTURE", "PACKED", "Row"]

#: Three pictures, two of them in the first prompt, packed into one row of patches.
PACKED: dict[str, Any] = {"prompts": (2, 1), "pictures": (6, 6, 2)}

#: A mixture of experts.
MIXTURE: dict[str, Any] = {
    "unread": ("router_logits",),
    "mingles": "an expert multiplies the tokens of all rows that are sent to it at once",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A checkpoint of the zoo.

    Args:
        config: Makes its config.
        inputs: Makes an encoding with everything that the model needs beside ids.
        auto: The transformers auto class that builds it.
        blocks: The native path of the text blocks, for raw hooks.
        tower: The native path of the tower's blocks; empty for a text model.
        parts: Native names of a tower block's attention and MLP.
        added: Native names of the modules of a text block whose outputs are added to the stream, where these are not
            the attention and the MLP themselves.
        reordered: Why the projector's rows are not in the order in which they are written; empty where they are.
        mingles: Why a neighbour in the batch changes a row's last bits; empty where it does not.
        pre_norm: The native path of the norm that patches pass before positions are added to them.
        video: Makes an encoding of one video of two frames, each of 4 x 6 patches, where the wrapper takes videos.
        pictures: The image tokens of each picture.
        prompts: How many pictures each of the two prompts shows.
        unread: Values that nothing on the way to the logits depends on.
        shared: Values whose tensor someone else reads too, so that an edit in place is seen there.
        attends: What a text position attends to: all before it (in a window, where the block has one), and besides
            the rest of its own picture, or of the prompt up to the suffix.
    """

    config: Callable[[], Any]
    inputs: Callable[[], dict[str, Tensor]]
    auto: str = "AutoModelForImageTextToText"
    blocks: str = "model.language_model.layers"
    tower: str = ""
    parts: tuple[str, str] = ("self_attn", "mlp")
    added: tuple[str, str] | None = None
    video: Callable[[], dict[str, Tensor]] | None = None
    reordered: str = ""
    mingles: str = ""
    pre_norm: str = ""
    pictures: tuple[int, ...] = (16, 16)
    prompts: tuple[int, int] = (1, 1)
    unread: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    attends: Literal["causal", "pictures both ways", "prompt both ways"] = "causal"

    def solo(self, number: int) -> dict[str, Tensor]:
        """One prompt of the batch, without its padding, and with its own pictures."""
        inputs = self.inputs()
        real = inputs["attention_mask"][number].bool()
        own = {key: held[number : number + 1, real] for key, held in inputs.items() if held.shape[:2] == (2, len(real))}
        if not self.tower:
            return own
        start = sum(self.prompts[:number])
        shown = slice(start, start + self.prompts[number])
        grids = inputs.get("image_grid_thw")
        patches = None if grids is None else grids.prod(-1).tolist()
        rows = shown if patches is None else slice(sum(patches[: shown.start]), sum(patches[: shown.stop]))
        own["pixel_values"] = inputs["pixel_values"][rows]
        return own | {key: inputs[key][shown] for key in ("image_grid_thw", "image_sizes") if key in inputs}
