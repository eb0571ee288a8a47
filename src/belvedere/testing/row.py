"""A row of the zoo: how a tiny checkpoint is made, and what is true of its native modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

__all__ = ["MIXTURE", "PACKED", "Later", "Row", "Scaled"]

#: What an encoding may say of each picture's size.
SIZES = (
    "image_grid_thw",
    "image_sizes",
    "image_position_ids",
    "spatial_shapes",
    "aspect_ratio_ids",
    "aspect_ratio_mask",
)

#: Three pictures, two of them in the first prompt, packed into one row of patches.
PACKED: dict[str, Any] = {"prompts": (2, 1), "pictures": (6, 6, 2)}

#: A mixture of experts.
MIXTURE: dict[str, Any] = {
    "mingles": "an expert multiplies the tokens of all rows that are sent to it at once",
}


@dataclass(frozen=True)
class Scaled:
    """A module whose output a block multiplies by a parameter of its own before it adds it.

    Args:
        module: The module's native name in the block.
        parameter: The parameter's.
        gate: Whether it is the parameter's hyperbolic tangent that multiplies.
        masked: The keyword of the block's call whose first part zeroes whole rows before; empty where nothing does.
    """

    module: str
    parameter: str
    gate: bool = False
    masked: str = ""


@dataclass(frozen=True)
class Later:
    """A tower's second list of blocks.

    Args:
        name: Its standard name.
        path: Its native path.
        parts: As for the tower's first list.
    """

    name: str
    path: str
    parts: tuple[str | Scaled, str | Scaled]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A checkpoint of the zoo.

    Args:
        config: Makes its config.
        inputs: Makes an encoding with everything that the model needs beside ids.
        auto: The transformers auto class that builds it.
        blocks: The native path of the text blocks, for raw hooks.
        tower: The native path of the tower's blocks; empty for a text model.
        parts: Native names of a tower block's attention and MLP, or `Scaled`.
        blockless: Where a tower has no blocks and ``tower`` is its own path: its last module's native name.
        added: Native names of the modules of a text block whose outputs are added to the stream, where these are not
            the attention and the MLP themselves; an empty one is the part itself.
        mingles: Why a neighbour in the batch changes a row's last bits; empty where it does not.
        pre_norm: The native path of the norm that patches pass before positions are added to them.
        also: Values of a text block that are added to the stream beside what attention and MLP add, with the native
            names of the modules whose outputs they are.
        gain: A buffer of a text block that multiplies the sum.
        besides: Values of a text block by which tokens and pictures enter it beside the stream.
        natives: Native names of a text stack's modules, by standard name, where they differ (``self_attn`` and its
            ``o_proj`` among them).
        video: Makes an encoding of one video of two frames, where the wrapper takes videos.
        pictures: The image tokens of each picture.
        prompts: How many pictures each of the two prompts shows.
        shared: Values whose tensor someone else reads too, so that an edit in place is seen there.
        processor: Makes its processor, where one can be made without a download.
        forms: Further forms of its processor, by what sets each apart.
        demands: What the refusal of a prompt without a picture says, where the processor takes none; empty elsewhere.
        placeholder: What stands for a picture in a prompt for it.
        lone: Why a picture becomes other image tokens alone than beside others; empty where it does not.
        scale: What the products of queries and keys are multiplied by, where it is not the root of the head's width.
        cap: What the scores are capped at by a hyperbolic tangent, where they are.
        kernels: The attention implementations that it takes.
        skipped: A text block that the model can run without.
        tiles: How many entries of each row of ``pixel_values`` are real, where they are stacked along its second axis.
        stacked: What such a row is: a picture cut into tiles, or a prompt with its pictures.
        copied: Values that are rows of a tensor laid out otherwise, and so a copy that a gradient reaches only once it
            is written back.
        projected: What becomes of the projector's rows on their way into the text.
        later: A tower's second list of blocks, where it has one.
        cross: As `added`, of the text blocks that attend to pictures; where there are any, nothing is written over the
            placeholders.
        cuts: How many tiles each picture is cut into, one after the other in ``pixel_values``.
        embedded: The native path of the module that takes the patches with their positions; empty where it is the
            tower's ``embeddings`` that return them.
        forward: What the model is called with beside its inputs.
        ungenerated: What transformers' own ``generate`` fails with; empty where it runs.
        alone: What the refusal of an invoke without a picture beside one with a picture says; empty where it is exact.
        attends: What a text position attends to: all before it (in a window, where the block has one), and besides
            the rest of its own picture, or of the prompt up to the suffix.
    """

    config: Callable[[], Any]
    inputs: Callable[[], dict[str, Tensor]]
    auto: str = "AutoModelForImageTextToText"
    blocks: str = "model.language_model.layers"
    tower: str = ""
    parts: tuple[str | Scaled, str | Scaled] = ("self_attn", "mlp")
    added: tuple[str | Scaled, str | Scaled] | None = None
    video: Callable[[], dict[str, Tensor]] | None = None
    mingles: str = ""
    pre_norm: str = ""
    blockless: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    gain: str = ""
    besides: tuple[str, ...] = ()
    natives: Mapping[str, str] = field(default_factory=dict)
    pictures: tuple[int, ...] = (16, 16)
    prompts: tuple[int, int] = (1, 1)
    shared: tuple[str, ...] = ()
    processor: Callable[[], Any] | None = None
    forms: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    demands: str = ""
    placeholder: str = "<image>"
    lone: str = ""
    scale: float | None = None
    cap: float | None = None
    kernels: tuple[str, ...] = ("sdpa", "eager")
    skipped: int = 1
    tiles: tuple[int, ...] = ()
    stacked: Literal["picture", "prompt"] = "picture"
    copied: tuple[str, ...] = ()
    projected: Literal["in order", "reordered", "cut", "mixed", "with padding"] = "in order"
    later: Later | None = None
    cross: tuple[Scaled, Scaled] | None = None
    alone: str = ""
    cuts: tuple[int, ...] = ()
    embedded: str = ""
    forward: Mapping[str, Any] = field(default_factory=dict)
    ungenerated: str = ""
    attends: Literal["causal", "pictures both ways", "prompt both ways"] = "causal"

    @property
    def stack(self) -> str:
        """The native path of the text stack."""
        return self.blocks.rpartition(".")[0]

    def native(self, name: str) -> str:
        """The native name of a text module, by its standard one."""
        return self.natives.get(name, name)

    def attention(self, number: int, part: str = "self_attn") -> str:
        """The native path of a text block's attention."""
        return f"{self.blocks}.{number}.{self.native(part)}"

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
        if self.stacked == "prompt":
            rows = slice(number, number + 1)
        if self.cuts:
            rows = slice(sum(self.cuts[: shown.start]), sum(self.cuts[: shown.stop]))
        most = None if self.cuts else max(self.tiles[rows], default=None)
        for key in ("pixel_values", "pixel_attention_mask"):
            if key in inputs:
                own[key] = inputs[key][rows] if most is None else inputs[key][rows, :most]
        if "batch_num_images" in inputs:
            own["batch_num_images"] = inputs["batch_num_images"][number : number + 1]
        return own | {key: inputs[key][shown] for key in SIZES if key in inputs}

    def shown(self) -> Tensor:
        """The pixels that the tower is shown: those of every tile or picture, without what pads a stack."""
        pixels = self.inputs()["pixel_values"]
        if not self.tiles:
            return pixels
        return torch.cat([one[:real] for one, real in zip(pixels, self.tiles, strict=True)])

    @property
    def task(self) -> str:
        """The task that it is loaded for."""
        return "text-generation" if self.auto == "AutoModelForCausalLM" else "image-text-to-text"
