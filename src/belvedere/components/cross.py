"""Text blocks that attend to the picture's features instead of to the text, and the tower that makes these features.

Nothing is written over a placeholder there: such blocks make their keys and values of what the tower hands over, and
what they add passes a gate.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from belvedere.components.attention import Attention, result_location, written_probabilities, written_scores
from belvedere.components.layer import Layer
from belvedere.components.pattern import Call, pattern_value
from belvedere.components.reach import unseen
from belvedere.components.standard import Standard
from belvedere.components.vision import Vision
from belvedere.descriptors import absent, as_held, value
from belvedere.layouts import (
    AttendedFeatures,
    ImageFeaturesPerImage,
    ImageKeys,
    ImagePattern,
    ImageValues,
)
from belvedere.select import Argument

__all__ = ["AttendedVision", "CrossAttention", "CrossLayer", "TwoStackVision"]

#: The argument of the text stack, and of its blocks, that the features are.
STATES = "cross_attention_states"
NO_VIDEO = "this model takes no video; show the frames as images and read image_features"
#: An argument that no call passes by position.
BY_NAME = 99


class CrossLayer(Layer):
    """A block of a text model some of whose blocks attend to the picture, in the place of the text (Mllama).

    Such a block has `cross_attn` and no `self_attn`. Its `ADDED` hold there alone; in the other blocks what is added
    are the modules' own outputs.
    """

    CROSS: ClassVar[str] = "cross_attn"

    deepstack_output: Any = absent(
        "deepstack_output",
        "what a picture shows enters this model in its cross-attention blocks, none is added behind a block; "
        "read cross_attn.attention_output",
        "tower features added to the stream after the block",
    )

    @property
    def attends_to_pictures(self) -> bool:
        """Whether this block attends to the picture's features."""
        return self.CROSS in vars(self)

    def added(self, part: str) -> str:
        """The place in this block where what a part adds is served, behind its gate."""
        return super().added(part) if self.attends_to_pictures else ""

    def never(self) -> str | None:
        """Why a block that attends to pictures never runs: in a text-only load nothing shows it one."""
        root = self.root
        if self.attends_to_pictures and (root.family.wrapper is None or root.text_only):
            return (
                "this block attends to a picture and is skipped where none is shown, as in every text-only load; "
                "load the wrapper with task='image-text-to-text'"
            )
        return super().never()

    def idle(self, name: str) -> str | None:
        """Why the block has no value in the running trace: it is skipped where no picture is shown."""
        given = getattr(self.interleaver.batcher, "keywords", {})
        if not self.attends_to_pictures or not given:
            return super().idle(name)
        if any(given.get(key) is not None for key in ("pixel_values", STATES)):
            return None
        return (
            "its input shows no picture, and the model skips the blocks that attend to one; pass `images=[...]`, "
            "or an encoding with pixel values"
        )


class CrossAttention(Attention):
    """Attention of a text block to the picture's features: text asks, pictures answer.

    Keys and values are of image tokens, so `attention_probabilities` is ``[batch, heads, query, image tokens]``. They
    are made once, at the prompt, and kept in the cache; `attention_output` is what is added, behind its gate.
    """

    ENTERS: ClassVar[tuple[str, ...]] = ("attention_output",)

    @value(":attention_interface().input", select=Argument(2, "key"), description="the picture's keys")
    def attention_keys(self, held: Tensor) -> ImageKeys:
        """The picture's keys, normed; those of the cache after the prompt. Grouped heads are not repeated."""
        return held

    @value(":attention_interface().input", select=Argument(3, "value"), description="the picture's values")
    def attention_values(self, held: Tensor) -> ImageValues:
        """The picture's values that the pattern mixes; grouped as the keys are."""
        return held

    @pattern_value(
        ":attention_interface().input",
        result=result_location,
        replace=written_scores,
        description="what the softmax over the picture is of",
    )
    def attention_scores(self, served: Any) -> ImagePattern:
        """Scaled and masked scores of each text position for each image token; recomputed, writable."""
        return Call.of(served).scores()

    @pattern_value(
        ":attention_interface().input",
        result=result_location,
        replace=written_probabilities,
        description="where in the picture the text looks",
    )
    def attention_probabilities(self, served: Any) -> ImagePattern:
        """Where in the picture each text position looks: one row of image tokens per head and position.

        ``attention_probabilities @ attention_values == attention_head_outputs``. A position that may look at no picture
        has a row over all of them, whose contribution the attention still adds.
        """
        return Call.of(served).probabilities()

    def _own_name(self) -> str:
        return "cross_attn"


def attended(host: Vision) -> tuple[Standard, str]:
    """Where the features are handed to the text stack."""
    return host.root.get(host.root.family.facts.text), "input"


def among_padding(host: AttendedVision, edited: Any, held: Tensor) -> Tensor:
    """The way back for features read picture by picture, without the pictures that pad a stack."""
    each = host.tokens_of_a_picture(held)
    stacked = held.reshape(-1, each, held.shape[-1]).clone()
    places = [place for place, own in enumerate(host.is_picture(len(stacked))) if own]
    for place, new in zip(places, edited, strict=True):
        stacked[place] = new
    return stacked.reshape(held.shape)


class AttendedVision(Vision):
    """A tower whose features are attended to by text blocks, and written over no placeholder (Mllama).

    Attributes:
        KINDS: The input that says of each picture of each prompt's stack what it is; 0 pads the stack.
    """

    KINDS: ClassVar[str] = "aspect_ratio_ids"

    # The blocks that attend to them are where they enter the stream.
    ENTERS: ClassVar[tuple[str, ...]] = ()

    video_token_mask: Any = absent("video_token_mask", NO_VIDEO, "which positions are video tokens")
    video_features: Any = absent("video_features", NO_VIDEO, "what is written over the video placeholders")
    image_token_mask: Any = absent(
        "image_token_mask",
        "this model's pictures stand at no position of the text, its cross-attention blocks attend to them; "
        "read image_features, or a cross_attn's attention_probabilities",
        "which positions are image tokens",
    )

    @value(
        attended,
        select=Argument(BY_NAME, STATES),
        restore=among_padding,
        unavailable=unseen,
        description="what is attended to, one tensor per picture",
    )
    def image_features_per_image(self, held: Tensor) -> ImageFeaturesPerImage:
        """`image_features` split by picture, a picture's tiles one after the other, as views."""
        flat, each = held.flatten(0, -2), self.tokens_of_a_picture(held)
        real = self.is_picture(len(flat) // each)
        return [flat[place * each : (place + 1) * each] for place, own in enumerate(real) if own]

    @value(
        attended,
        select=Argument(BY_NAME, STATES),
        restore=as_held,
        unavailable=unseen,
        description="what the cross-attention blocks attend to",
    )
    def image_features(self, held: Tensor) -> AttendedFeatures:
        """What the text's cross-attention blocks attend to: ``cross_attention_states``, all tiles of a prompt in a row.

        Each of these blocks makes its own keys and values of it. Nothing is written into the token embeddings.
        Edits in place and assignment both reach all of these blocks.
        """
        return held.reshape(self.root.input_size[0], -1, held.shape[-1])

    def is_picture(self, count: int) -> list[bool]:
        """Which of ``count`` pictures, stacked by prompt, are one and not padding; beams show each several times."""
        kinds = self.interleaver.batcher.rows(self.KINDS)
        if kinds is None:
            return [True] * count
        # Under a scan tensors are fake, and what an input says needs real ones.
        with unset_fake_temporarily():
            prompts: list[list[int]] = kinds.tolist()
        shown = count // kinds.numel()
        return [kind != 0 for prompt in prompts for _ in range(shown) for kind in prompt]

    def tokens_of_a_picture(self, held: Tensor) -> int:
        """How many rows one picture has, padded tiles among them."""
        return int(self.config.max_num_tiles * held.shape[-2])


#: Where the positions of a tower are that adds them in several gated steps.
CURE = "read vision.gated_positional_embedding.output"


class TwoStackVision(AttendedVision):
    """A tower of two stacks in sequence: `layers` see a tile's rows as they are, `global_layers` come after (Mllama).

    A picture's tiles are in one row, each with its CLS, its patches in raster order and its padding;
    `patch_embeddings` has a tile for an image. `tower_output` is the last stream of the second stack, before padding
    is cut off and the streams of some blocks of the first are put beside it.
    """

    LISTS = ("layers", "global_layers")

    position_embeddings: Any = absent(
        "position_embeddings",
        f"this tower adds the positions of tiles and of patches in turn, each behind a gate; {CURE}",
        "what is added to the patches",
    )
    rotary: Any = absent(
        "rotary",
        f"this tower adds learned positions and rotates nothing; {CURE}",
        "cos and sin of the rotary embedding",
    )
