"""A row of the zoo: how a tiny checkpoint is made, and what is true of its native modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

#: What an encoding says of each picture beside its pixels.
BESIDE = ("image_grid_thw", "image_sizes", "spatial_shapes")

__all__ = ["PACKED", "Row"]

#: Three pictures, two of them in the first prompt, packed into one row of patches.
PACKED: dict[str, Any] = {"prompts": (2, 1), "pictures": (6, 6, 2)}


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
            the attention and the MLP themselves; an empty one is the part itself.
        out: The native name of a text attention's output projection.
        pictures: The image tokens of each picture.
        prompts: How many pictures each of the two prompts shows.
        tiles: How many entries of each row of ``pixel_values`` are real, where they are stacked along its second axis.
        stack: What such a row is: a picture cut into tiles, or a prompt with its pictures.
        unread: Values that nothing on the way to the logits depends on.
        copied: Values that are rows of a tensor laid out otherwise, and so a copy that a gradient reaches only once it
            is written back.
        shared: Values whose tensor someone else reads too, so that an edit in place is seen there.
        projected: What becomes of the projector's rows on their way into the text.
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
    out: str = "o_proj"
    pictures: tuple[int, ...] = (16, 16)
    prompts: tuple[int, int] = (1, 1)
    tiles: tuple[int, ...] = ()
    stack: Literal["picture", "prompt"] = "picture"
    unread: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    projected: Literal["in order", "reordered", "cut", "mixed"] = "in order"
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
        if self.stack == "prompt":
            rows = slice(number, number + 1)
        most = max(self.tiles[rows], default=None)
        for key in ("pixel_values", "pixel_attention_mask"):
            if key in inputs:
                own[key] = inputs[key][rows] if most is None else inputs[key][rows, :most]
        if "batch_num_images" in inputs:
            own["batch_num_images"] = inputs["batch_num_images"][number : number + 1]
        return own | {key: inputs[key][shown] for key in BESIDE if key in inputs}

    def shown(self) -> Tensor:
        """The pixels that the tower is shown: those of every tile or picture, without what pads a stack."""
        pixels = self.inputs()["pixel_values"]
        if not self.tiles:
            return pixels
        return torch.cat([one[:real] for one, real in zip(pixels, self.tiles, strict=True)])
