"""Each named shape once, with its axes explained.

An axis name means one thing everywhere:

``batch``, ``seq``
    rows and token positions of the text model's input; ``keys`` is ``seq`` plus what a cache already holds.
``hidden``, ``vocab``
    widths of the text stream and of the vocabulary.
``images``, ``patches``
    pictures and rows of a tower's patch axis (CLS and registers included). A packed tower, whose forward keeps every
    picture's patches in one row, is served with ``images = 1``.
``vision_hidden``
    width of the tower's stream, named apart so that ``hidden`` is always the text model's.
``image_tokens``
    placeholder positions of all pictures, in prompt order; where text attends to pictures (Mllama), the rows of all of
    a prompt's pictures.
``per_layer``
    width of what a block gets beside the stream.
``heads``, ``kv_heads``, ``head_dim``
    of a softmax attention; ``key_heads``, ``value_heads``, ``key_dim`` and ``value_dim`` of a recurrent mixer;
    ``value_dim`` too of an attention whose values are not as wide as its keys.
``pairs``
    half of ``head_dim``: the pairs of dimensions that are turned together.
``segment``
    patches that attend to each other: a picture, a frame or a window.
``experts``, ``routed``
    of a mixture: all experts, and those that one token is sent to.
"""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

Residual = Float[Tensor, "batch seq hidden"]
PerLayerInput = Float[Tensor, "batch seq per_layer"]
Logits = Float[Tensor, "batch seq vocab"]
NextTokenProbs = Float[Tensor, "batch vocab"]
TokenIds = Int[Tensor, "batch seq"]
AttentionMask = Int[Tensor, "batch seq"]

Queries = Float[Tensor, "batch heads seq head_dim"]
Keys = Float[Tensor, "batch kv_heads keys head_dim"]
Values = Float[Tensor, "batch kv_heads keys head_dim"]
HeadOutputs = Float[Tensor, "batch heads seq head_dim"]
LatentValues = Float[Tensor, "batch heads keys value_dim"]
LatentHeadOutputs = Float[Tensor, "batch heads seq value_dim"]
Gate = Float[Tensor, "batch heads seq head_dim"]
Pattern = Float[Tensor, "batch heads seq keys"]

ImageKeys = Float[Tensor, "batch kv_heads image_tokens head_dim"]
ImageValues = Float[Tensor, "batch kv_heads image_tokens head_dim"]
ImagePattern = Float[Tensor, "batch heads seq image_tokens"]

RecurrentQueries = Float[Tensor, "batch key_heads seq key_dim"]
RecurrentKeys = Float[Tensor, "batch key_heads seq key_dim"]
RecurrentValues = Float[Tensor, "batch value_heads seq value_dim"]
RecurrentHeadOutputs = Float[Tensor, "batch value_heads seq value_dim"]
Decays = Float[Tensor, "batch value_heads seq"]
Betas = Float[Tensor, "batch value_heads seq"]
State = Float[Tensor, "batch value_heads key_dim value_dim"]

RouterLogits = Float[Tensor, "batch seq experts"]
ExpertWeights = Float[Tensor, "batch seq routed"]
ExpertIndices = Int[Tensor, "batch seq routed"]
ExpertOutputs = Float[Tensor, "batch seq routed hidden"]

Patches = Float[Tensor, "images patches vision_hidden"]
VisionQueries = Float[Tensor, "images heads patches head_dim"]
VisionKeys = Float[Tensor, "images heads patches head_dim"]
VisionValues = Float[Tensor, "images heads patches head_dim"]
VisionHeadOutputs = Float[Tensor, "images heads patches head_dim"]
VisionPattern = Float[Tensor, "images heads patches patches"]
SegmentPattern = Float[Tensor, "heads segment segment"]
SegmentPatterns = list[SegmentPattern]
RotaryTable = Float[Tensor, "patches head_dim"]
Rotary = tuple[RotaryTable, RotaryTable]
PairedRotaryTable = Float[Tensor, "patches pairs"]
PairedRotary = tuple[PairedRotaryTable, PairedRotaryTable]
PaddedRotaryTable = Float[Tensor, "images patches head_dim"]
PaddedRotary = tuple[PaddedRotaryTable, PaddedRotaryTable]
MergedPatches = Float[Tensor, "image_tokens merged_hidden"]
ImageFeatures = Float[Tensor, "image_tokens hidden"]
AttendedFeatures = Float[Tensor, "batch image_tokens hidden"]
ImageFeaturesPerImage = list[ImageFeatures]
ImageTokenMask = Bool[Tensor, "batch seq"]

__all__ = [
    "AttendedFeatures",
    "AttentionMask",
    "Betas",
    "Decays",
    "ExpertIndices",
    "ExpertOutputs",
    "ExpertWeights",
    "Gate",
    "HeadOutputs",
    "ImageFeatures",
    "ImageFeaturesPerImage",
    "ImageKeys",
    "ImagePattern",
    "ImageTokenMask",
    "ImageValues",
    "Keys",
    "LatentHeadOutputs",
    "LatentValues",
    "Logits",
    "MergedPatches",
    "NextTokenProbs",
    "PaddedRotary",
    "PaddedRotaryTable",
    "PairedRotary",
    "PairedRotaryTable",
    "Patches",
    "Pattern",
    "PerLayerInput",
    "Queries",
    "RecurrentHeadOutputs",
    "RecurrentKeys",
    "RecurrentQueries",
    "RecurrentValues",
    "Residual",
    "Rotary",
    "RotaryTable",
    "RouterLogits",
    "SegmentPattern",
    "SegmentPatterns",
    "State",
    "TokenIds",
    "Values",
    "VisionHeadOutputs",
    "VisionKeys",
    "VisionPattern",
    "VisionQueries",
    "VisionValues",
    "all_axes",
    "axes",
    "axes_of",
    "shape",
]


def axes(layout: Any) -> tuple[str, ...]:
    """The axis names of one tensor layout: ``axes(Residual)`` is ``("batch", "seq", "hidden")``."""
    return tuple(str(layout.dim_str).split())


def all_axes() -> tuple[str, ...]:
    """Every axis name of every layout, in the order in which they are first used."""
    tensors = (held for name, held in globals().items() if name in __all__ and hasattr(held, "dim_str"))
    return tuple(dict.fromkeys(name for layout in tensors for name in axes(layout)))


def axes_of(name: str) -> tuple[str, ...]:
    """The axis names of a layout by its name, of all tensors of a list or a pair; empty for what is no layout."""
    if name not in __all__:
        return ()
    layout = globals()[name]
    parts = [layout] if hasattr(layout, "dim_str") else layout.__args__
    return tuple(dict.fromkeys(axis for part in parts for axis in axes(part)))


def shape(name: str, sizes: Mapping[str, int] | None = None) -> str:
    """How a layout is printed: ``shape("Residual")`` is ``"[batch, seq, hidden]"``, lists and pairs likewise.

    Args:
        name: The layout's name.
        sizes: Sizes of axes to print beside their names: ``"[batch, seq, hidden=96]"``.
    """
    if name not in __all__:
        return ""
    layout = globals()[name]
    if hasattr(layout, "dim_str"):
        return _printed(layout, sizes or {})
    parts = ", ".join(_printed(part, sizes or {}) for part in layout.__args__)
    return f"list of {parts}" if layout.__origin__ is list else f"({parts})"


def _printed(layout: Any, sizes: Mapping[str, int]) -> str:
    return f"[{', '.join(f'{axis}={sizes[axis]}' if axis in sizes else axis for axis in axes(layout))}]"
