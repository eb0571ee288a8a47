"""A vision tower: its own values, and the features that it hands to the text model."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import torch
from greenlet import getcurrent
from nnsight.intervention.envoy import Envoy
from torch import Tensor

from belvedere.components.gathering import Entry, Reasons, block_parts, stack_support
from belvedere.components.located import Located
from belvedere.components.reach import as_patches, no_images, taken, unseen
from belvedere.components.stack import Stack
from belvedere.components.staging import staged
from belvedere.components.standard import Standard
from belvedere.components.summary import of_tower
from belvedere.components.tower_sizes import TowerSizes
from belvedere.descriptors import KeptValue, absent, as_held, value
from belvedere.errors import InputError, Unavailable
from belvedere.layouts import ImageFeatures, ImageFeaturesPerImage, ImageTokenMask, MergedPatches, Patches
from belvedere.select import Argument, First, FirstArgument
from belvedere.staged import Staged

__all__ = ["Vision", "root_input"]


def no_scatter(host: Vision) -> str | None:
    """The reason, where no operation is known that writes the features into the text stream."""
    if unseen(host) is None and host.root.scatter is None:
        return f"the entry of {host.root.family.wrapper} names no scatter; read projector.output"
    return unseen(host)


def no_video(host: Vision) -> str | None:
    """The reason, where the model takes no video."""
    reason = no_scatter(host)
    if reason is None and not host.root.scatter.video_scatter:
        return f"{host.root.family.wrapper} takes no video; show the frames as images and read image_features"
    return reason


def no_token(modality: str) -> Any:
    """A reason function: the config gives no placeholder id for images or videos."""

    def reason(host: Vision) -> str | None:
        if unseen(host) is None and host.root.placeholder(modality) is None:
            facts = host.root.family.facts
            name = facts.image_token if modality == "image" else facts.video_token
            if name is None:
                return f"{host.root.family.wrapper} takes no {modality}; read image_token_mask"
            return f"the config has no `{name}`; set it to the id of the {modality} placeholder"
        return unseen(host)

    return reason


def scatter_input(host: Vision) -> tuple[Standard, str]:
    """Where the image features are an argument."""
    return host.root.scatter, f":{host.root.scatter.scatter}.input"


def video_scatter_input(host: Vision) -> tuple[Standard, str]:
    """Where the video features are an argument."""
    return host.root.scatter, f":{host.root.scatter.video_scatter}.input"


def positions(host: Vision) -> tuple[Standard, str]:
    """Where what is added to the patches is served."""
    return host, host.POSITIONS


def root_input(host: Standard) -> tuple[Standard, str]:
    """Where the prompt's token ids are an argument."""
    return host.root, "input"


def last_stream(host: Vision) -> tuple[Standard, str]:
    """Where the tower's last stream is served: its final norm, or its last block where it has none."""
    last = host.LISTS[-1]
    return host, "norm.output" if "norm" in vars(host) else f"{last}.{len(getattr(host, last)) - 1}.output"


def folded_patches(host: Vision) -> tuple[Envoy, str]:
    """Where the folded patches enter the projector's MLP."""
    return host.root.projector, f"{host.root.family.facts.merged}.input"


def unfolded(host: Vision) -> str | None:
    """The reason, where the projector takes one row for each patch."""
    if unseen(host) is None and not host.root.family.facts.merged:
        return "this tower's patches are not folded, the projector takes one row for each; read projector.input"
    return unseen(host)


def from_rows(host: Standard, edited: Any, held: Any) -> Any:
    """The way back for patches read as rows out of a feature map ``[images, width, rows, columns]``."""
    return edited.transpose(1, 2).reshape(held.shape) if held.ndim == 4 else edited.reshape(held.shape)


def joined(host: Standard, edited: Any, held: Any) -> Any:
    """The way back for features read image by image."""
    return torch.cat(list(edited)).reshape(held.shape)


def features(host: Vision) -> Argument:
    """Which argument of the scatter is the features."""
    return Argument(host.root.scatter.scatter_argument, host.root.scatter.scatter_keyword)


class Vision(Located, TowerSizes, Stack):
    """A vision tower.

    Attributes:
        POSITIONS: The place of `position_embeddings`, as in `belvedere.descriptors`.
    """

    SHELF = "towers"
    #: The module that was last staged, and how: a model whose weights are loaded anew has another.
    _staged: tuple[Any, Staged] | None = None
    ENTERS: ClassVar[tuple[str, ...]] = ("image_features",)
    POSITIONS: ClassVar[str] = "position_embed.output"
    AXES = {
        "vision_hidden": "vision_hidden_size",
        "heads": "num_heads",
        "head_dim": "head_dim",
        "merged_hidden": "merged_hidden_size",
    }

    @property
    def name(self) -> str:
        """``vision``, whatever the wrapper calls it."""
        return "vision"

    @classmethod
    def operations(cls) -> tuple[str, ...]:
        """`OPERATIONS`, and the one in the tower's own forward that `position_embeddings` lives at."""
        own = cls.POSITIONS.startswith(":")
        return (*super().operations(), *((cls.POSITIONS[1:].rpartition(".")[0],) if own else ()))

    def no_images(self) -> str | None:
        """Why no picture reaches this tower; ``None`` where one does."""
        return no_images(self.root)

    def support(self, *, notes: bool = False) -> Reasons:
        """Each value of the tower and of its blocks, by standard path; no rows where no picture reaches it.

        Args:
            notes: Give a `Note` for a value that reads although nothing in the forward depends on it.
        """
        if self.no_images() is not None:
            return {}
        own = {f"vision.{name}": reason for name, reason in super().support(notes=notes).items()}
        return {**own, **stack_support(self, "vision.", notes=notes)}

    @property
    def staged(self) -> Staged:
        """The tower to run by hand: `belvedere.staged.Staged`, with ``embed``, ``encode`` and ``merge``.

        Outside of a trace. Where the weights are not loaded yet they are, as by a first trace.
        """
        if self._staged is None or self._staged[0] is not self._module:
            try:
                self._staged = (self._module, staged(self))
            except AttributeError as error:
                # An attribute error here would be answered as "no attribute of that name".
                raise RuntimeError(
                    f"staging the tower failed: {error}; where the model was not kept, keep it: `model = ...`"
                ) from error
        return self._staged[1]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle carries: a staged tower is of this module alone."""
        return {name: held for name, held in super().__getstate__().items() if name != "_staged"}

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """The blocks whose stream the wrapper takes, by the config; empty where it takes the tower's own output."""
        name = self.root.family.facts.feature_layers
        given = getattr(self.root.source_config, name, None)
        return () if given is None else self.blocks_of(given)

    def blocks_of(self, layers: int | Iterable[int]) -> tuple[int, ...]:
        """The blocks whose streams are these entries of transformers' hidden states."""
        chosen = [layers] if isinstance(layers, int) else list(layers)
        # Entry 0 of the hidden states is the embeddings, and the last is the last block's stream.
        return tuple(sorted(one - 1 if one >= 0 else one + self.num_layers for one in chosen))

    @property
    def last_read(self) -> int:
        """The last block that anything reads."""
        return max(self.feature_layers, default=self.num_layers - 1)

    def remark(self, name: str) -> str | None:
        """What to know of a value of the tower that nothing reads; a normed stream is taken by -1 alone."""
        facts = self.root.family.facts
        normed = facts.normed and getattr(self.root.source_config, facts.feature_layers, None) == -1
        skipped = "norm" in vars(self) and not normed
        if name == "tower_output" and self.feature_layers and (skipped or self.last_read < self.num_layers - 1):
            return f"nothing reads it: the wrapper takes {taken(*self.feature_layers)}; write that one"
        return super().remark(name)

    def __repr__(self) -> str:
        """The tower on one screen; `tree` is the whole of it."""
        return of_tower(self)

    def entries(self) -> list[Entry]:
        """Every place where image information enters the text model, in the order of the forward.

        Zeroing them all in one trace makes the logits independent of the pixels::

            with model.trace(prompt, images=[image]):
                for entry in model.vision.entries():
                    entry.value = 0

        Inside a trace they are those of its own input, a video's among them.
        """
        hosts = [self, *(part for block in self.root.layers for part in block_parts(block))]
        names = [(host, name) for host in hosts for name in host.ENTERS]
        if getattr(getcurrent(), "mediator", None) is not None:
            filmed = [(self, "video_features")] * any(one.videos for one in self.pictures())
            names = [(host, name) for host, name in [*names[:1], *filmed, *names[1:]] if host.idle(name) is None]
        found = [Entry(host, host.values()[name]) for host, name in names]
        return [entry for entry in found if entry.found.reason(entry.host) is None]

    @value(
        root_input,
        kind=KeptValue,
        select=Argument(0, "input_ids"),
        unavailable=no_token("image"),
        read_only="it follows from the prompt; trace another prompt, or write vision.image_features",
        description="which positions are image tokens",
    )
    def image_token_mask(self, ids: Tensor) -> ImageTokenMask:
        """True where the prompt's token is the image placeholder, read off the token ids.

        Can be read at any point of the forward. Under ``generate`` the pictures belong to step 0.
        """
        return ids.eq(self.root.placeholder("image"))

    @value(
        root_input,
        kind=KeptValue,
        select=Argument(0, "input_ids"),
        unavailable=no_token("video"),
        read_only="it follows from the prompt; trace another prompt, or write vision.video_features",
        description="which positions are video tokens",
    )
    def video_token_mask(self, ids: Tensor) -> ImageTokenMask:
        """True where the prompt's token is the video placeholder, read off the token ids."""
        return ids.eq(self.root.placeholder("video"))

    @value("patch_embed.output", restore=from_rows, unavailable=unseen, description="one row per patch")
    def patch_embeddings(self, held: Tensor) -> Patches:
        """One row per patch as the patch embedding gives it, before positions, CLS and any norm.

        A feature map is read line by line; a packed tower's rows have the tower's own order, as `model.layout` says it.
        Edits in place and assignment both reach the tower.
        """
        return held.flatten(2).transpose(1, 2) if held.ndim == 4 else as_patches(held)

    @value(positions, restore=as_held, unavailable=unseen, description="what is added to the patches")
    def position_embeddings(self, held: Tensor) -> Patches:
        """The learned position embeddings that are added to the rows, CLS's among them; shared by all images."""
        return as_patches(held)

    rotary: Any = absent(
        "rotary",
        "this tower adds learned positions and rotates nothing; read position_embeddings",
        "cos and sin of the rotary embedding",
    )

    segments: Any = absent(
        "segments",
        "this tower has an axis of pictures, each of which attends to itself alone; read attention_probabilities",
        "the runs of patches that attend to each other",
    )

    @value(last_stream, select=First(), restore=as_held, unavailable=unseen, description="the tower's last stream")
    def tower_output(self, held: Tensor) -> Patches:
        """The last block's stream, after ``vision.norm`` where there is one; before pooling, CLS dropping or adapter.

        Which block the wrapper reads is another matter: LLaVA-1.5 takes the last but one (``vision_feature_layer=-2``).
        """
        return as_patches(held)

    @value(
        folded_patches,
        select=FirstArgument(),
        restore=as_held,
        unavailable=unfolded,
        description="what the projector's MLP receives where patches are folded",
    )
    def merged_patches(self, held: Tensor) -> MergedPatches:
        """The patches of each block in one row per image token, as the projector's MLP receives them.

        Where the projector lays its grid out otherwise this is a copy: edits and assignment land, and a gradient
        reaches it once it is written back.
        """
        return held.flatten(0, -2)

    @value(
        scatter_input,
        select=features,
        restore=joined,
        unavailable=no_scatter,
        description="image features, one tensor per picture",
    )
    def image_features_per_image(self, held: Tensor) -> ImageFeaturesPerImage:
        """`image_features` split by picture, as views."""
        flat = held.flatten(0, -2)
        ends = list(accumulate(self.tokens_per_picture(len(flat)), initial=0))
        # One slice each: views that one split returns together cannot be edited in place under autograd.
        return [flat[start:stop] for start, stop in pairwise(ends)]

    def tokens_per_picture(self, count: int) -> list[int]:
        """How many image tokens each picture has, of ``count`` in all; beams show every picture several times.

        Raises:
            InputError: The model's own splitting of these pictures is not known.
        """
        tokens: list[int] = [number for shown in self.pictures() for number in shown.tokens]
        if not tokens or count % sum(tokens):
            raise InputError(
                f"{count} image features are not {tokens} by picture: this wrapper crops or tiles its pictures; "
                "read vision.image_features"
            )
        return tokens * (count // sum(tokens))

    @value(
        scatter_input,
        select=features,
        restore=as_held,
        unavailable=no_scatter,
        description="what is written over the placeholders",
    )
    def image_features(self, held: Tensor) -> ImageFeatures:
        """What the wrapper writes over the placeholders' embeddings, all pictures flat, read at that very place.

        ``layers[0].layer_input[vision.image_token_mask] == vision.image_features``.
        Edits in place and assignment both reach the text model.
        """
        return held.flatten(0, -2)

    @value(
        video_scatter_input,
        select=features,
        restore=as_held,
        unavailable=no_video,
        description="what is written over the video placeholders",
    )
    def video_features(self, held: Tensor) -> ImageFeatures:
        """What the wrapper writes over the video placeholders' embeddings, flat."""
        return held.flatten(0, -2)

    def idle(self, name: str) -> str | None:
        """Why the input of the running trace does not make a value of the tower: it shows no picture, or no video."""
        shown = self.pictures()
        if not shown or any(one.unknown for one in shown):
            return None
        images, videos = any(one.count for one in shown), any(one.videos for one in shown)
        if name == "video_features":
            return None if videos else "its input shows no video; pass `videos=[...]`, or read image_features"
        if images or (videos and name not in ("image_features", "image_features_per_image")):
            return None
        if videos:
            return "its input shows a video and no picture; read video_features"
        return "its input shows no picture; pass `images=[...]`, or an encoding with pixel values"

    def pictures(self) -> list[Any]:
        """The `belvedere.pictures.Pictures` of the running invoke; none where the tower itself is traced."""
        known = getattr(self.interleaver.batcher, "pictures", None)
        return [] if known is None else list(known())

    @property
    def merged_hidden_size(self) -> int:
        """The width of `merged_patches`: a block's patches side by side."""
        if (reason := unfolded(self)) is not None:
            raise Unavailable("vision.merged_hidden_size", reason)
        return int(self.root.projector.get(self.root.family.facts.merged)._module.in_features)
