"""What a value means, and how it is read and written; components know no family."""

from belvedere.components.attention import Attention, GatedAttention
from belvedere.components.beside import Beside, MixtureBeside
from belvedere.components.block_list import Blocks
from belvedere.components.blockless import BlocklessVision
from belvedere.components.choice import Having
from belvedere.components.cross import AttendedVision, CrossAttention, CrossLayer, TwoStackVision
from belvedere.components.deepstack import DeepstackLayer, DeepstackText
from belvedere.components.dense_mixture import DenseMixture
from belvedere.components.describing import Description, Descriptions
from belvedere.components.glm import GlmPositions, GlmVision, PlacedGlmVision
from belvedere.components.latent import LatentAttention
from belvedere.components.layer import Layer
from belvedere.components.mixture import GatedSharedMixture, Mixture, SharedMixture
from belvedere.components.mlp import Mlp
from belvedere.components.moon import MoonPositions, MoonVision, MoonVisionAttention
from belvedere.components.packed import QwenVision, RotaryQwenVision
from belvedere.components.pixtral import PixtralVision, PixtralVisionAttention
from belvedere.components.pooled import PatchEmbedder, PooledVision
from belvedere.components.reach import NoVision
from belvedere.components.recurrent import LinearAttention
from belvedere.components.sandwich import SandwichLayer, SandwichVisionLayer
from belvedere.components.scaled import ScaledLayer
from belvedere.components.scatter import ImageAndVideoScatter, ImageScatter, MergerScatter, SoundFirstScatter
from belvedere.components.segments import PER_IMAGE, QwenVisionAttention
from belvedere.components.short_convolution import ShortConvolution
from belvedere.components.slotted import SlottedEmbeddings, SlottedVision
from belvedere.components.stack import Stack, Text
from belvedere.components.standard import Note, Standard
from belvedere.components.turned import TurnedVision
from belvedere.components.vision import Vision
from belvedere.components.vision_block import VisionAttention, VisionLayer, VisionMlp

#: Which envoy serves which standard name of a text block.
TEXT_BLOCK: dict[str, type[Standard] | Having] = {
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
    "AttendedVision",
    "Attention",
    "Beside",
    "BlocklessVision",
    "Blocks",
    "CrossAttention",
    "CrossLayer",
    "DeepstackLayer",
    "DeepstackText",
    "DenseMixture",
    "Description",
    "Descriptions",
    "GatedAttention",
    "GatedSharedMixture",
    "GlmPositions",
    "GlmVision",
    "Having",
    "ImageAndVideoScatter",
    "ImageScatter",
    "LatentAttention",
    "Layer",
    "LinearAttention",
    "MergerScatter",
    "Mixture",
    "MixtureBeside",
    "Mlp",
    "MoonPositions",
    "MoonVision",
    "MoonVisionAttention",
    "NoVision",
    "Note",
    "PatchEmbedder",
    "PixtralVision",
    "PixtralVisionAttention",
    "PlacedGlmVision",
    "PooledVision",
    "QwenVision",
    "QwenVisionAttention",
    "RotaryQwenVision",
    "SandwichLayer",
    "SandwichVisionLayer",
    "ScaledLayer",
    "SharedMixture",
    "ShortConvolution",
    "SlottedEmbeddings",
    "SlottedVision",
    "SoundFirstScatter",
    "Stack",
    "Standard",
    "Text",
    "TurnedVision",
    "TwoStackVision",
    "Vision",
    "VisionAttention",
    "VisionLayer",
    "VisionMlp",
]
