"""What a value means, and how it is read and written; components know no family."""

from belvedere.components.attention import Attention, GatedAttention
from belvedere.components.layer import Layer
from belvedere.components.mixture import Mixture
from belvedere.components.mlp import Mlp
from belvedere.components.packed import QwenVision, RotaryQwenVision
from belvedere.components.padded import PaddedEmbeddings, PaddedVision
from belvedere.components.pixtral import PixtralVision, PixtralVisionAttention
from belvedere.components.reach import NoVision
from belvedere.components.recurrent import LinearAttention
from belvedere.components.sandwich import SandwichAttention, SandwichMlp
from belvedere.components.scatter import ImageAndVideoScatter, ImageScatter, MergerScatter
from belvedere.components.segments import PER_IMAGE, QwenVisionAttention
from belvedere.components.short_convolution import ShortConvolution
from belvedere.components.stack import Stack, Text
from belvedere.components.standard import Standard
from belvedere.components.vision import Vision
from belvedere.components.vision_block import VisionAttention, VisionLayer, VisionMlp

#: Which envoy serves which standard name of a text block.
TEXT_BLOCK: dict[str, type[Standard]] = {
    "layers.*": Layer,
    "layers.*.self_attn": Attention,
    "layers.*.linear_attn": LinearAttention,
    "layers.*.mlp": Mlp,
}
#: Which envoy serves which standard name of a tower block.
VISION_BLOCK: dict[str, type[Standard]] = {
    "layers.*": VisionLayer,
    "layers.*.self_attn": VisionAttention,
    "layers.*.mlp": VisionMlp,
}

__all__ = [
    "PER_IMAGE",
    "TEXT_BLOCK",
    "VISION_BLOCK",
    "Attention",
    "GatedAttention",
    "ImageAndVideoScatter",
    "ImageScatter",
    "Layer",
    "LinearAttention",
    "MergerScatter",
    "Mixture",
    "Mlp",
    "NoVision",
    "PaddedEmbeddings",
    "PaddedVision",
    "PixtralVision",
    "PixtralVisionAttention",
    "QwenVision",
    "QwenVisionAttention",
    "RotaryQwenVision",
    "SandwichAttention",
    "SandwichMlp",
    "ShortConvolution",
    "Stack",
    "Standard",
    "Text",
    "Vision",
    "VisionAttention",
    "VisionLayer",
    "VisionMlp",
]
