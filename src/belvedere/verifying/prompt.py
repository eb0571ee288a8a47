"""The input that a model is verified on: a picture that is drawn on the spot and a short question, or one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from belvedere import inputs
from belvedere.components import NoVision
from belvedere.errors import InputError, Unavailable

if TYPE_CHECKING:
    from PIL.Image import Image

    from belvedere.standardized import StandardizedTransformer

__all__ = ["Given", "longer", "picture", "prepared"]

QUESTION = "what is in the picture ?"
SENTENCE = "The quick brown fox jumps over the lazy dog."
OWN = (
    "pass an input of your own: `verify(text=prompt, images=[picture])`, or an encoding with everything that the model "
    "takes, `verify(**encoding)`"
)
#: The shortest and the longest side of the picture, in pixels.
LEAST, MOST = 64, 448
#: How many tokens `longer` adds.
ADDED = 3

Given = tuple[dict[str, Any], str]


def prepared(model: StandardizedTransformer, data: Any, keywords: Mapping[str, Any]) -> Given:
    """What the forward takes, and what it shows in words.

    Args:
        model: The model.
        data: What `trace` takes by position; ``None`` for the synthetic input.
        keywords: What it takes by keyword.

    Raises:
        InputError: It is no input of this model, or the model's processor makes no synthetic one.
    """
    if data is not None or keywords:
        return _placed(model, inputs.encode(model, data, keywords)), "the input that was passed"
    if isinstance(model.vision, NoVision):
        return _first_of(model, [({"data": SENTENCE}, f"the text {SENTENCE!r}")])
    shown = picture(model)
    what = f"a synthetic picture of {shown.size[0]} x {shown.size[1]} pixels and the question {QUESTION!r}"
    chat = [{"role": "user", "content": [{"type": "image", "image": shown}, {"type": "text", "text": QUESTION}]}]
    token = getattr(model.processor, "image_token", None)
    ways: list[tuple[dict[str, Any], str]] = []
    if getattr(model.processor, "chat_template", None):
        ways.append(({"data": chat}, what))
    if token is not None:
        ways.append(({"data": f"{token} {QUESTION}", "images": [shown]}, what))
    return _first_of(model, ways)


def _first_of(model: StandardizedTransformer, ways: list[tuple[dict[str, Any], str]]) -> Given:
    """The first of some inputs that the model's processor takes."""
    if (model.processor or model.tokenizer) is None:
        raise InputError(f"this model was loaded without a processor, so no synthetic input can be made; {OWN}")
    refused = "it names no image token"
    for way, what in ways:
        try:
            return _placed(
                model, inputs.encode(model, way["data"], {k: v for k, v in way.items() if k != "data"})
            ), what
        except InputError as error:
            refused = str(error)
    raise InputError(f"this model's processor takes no synthetic input ({refused}); {OWN}")


def _placed(model: StandardizedTransformer, made: inputs.Invoke) -> dict[str, Any]:
    """An encoding on the model's device, pixels in its number type, without labels: they have a loss computed."""
    if made.encoding.get("input_ids") is None:
        raise InputError("the input has no token ids, by which image tokens are told from text; pass `input_ids`")
    weight = next(model.embed_tokens._module.parameters())
    device = "cpu" if weight.is_meta else weight.device
    held = {name: given for name, given in {**made.encoding, **made.forward}.items() if name != "labels"}
    held = {name: given.to(device) if isinstance(given, Tensor) else given for name, given in held.items()}
    return {name: given.to(weight.dtype) if name == "pixel_values" else given for name, given in held.items()}


def picture(model: StandardizedTransformer) -> Image:
    """A picture of noise with a disc and a box on it, of a size that suits the tower, wider than high."""
    import numpy as np
    from PIL import Image as Images
    from PIL import ImageDraw

    try:
        unit = model.vision.patch_size * model.vision.spatial_merge_size
    except Unavailable:
        unit = 16
    width, height = (min(MOST, max(LEAST, count * unit)) for count in (8, 6))
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    made = Images.fromarray(noise)
    pen = ImageDraw.Draw(made)
    pen.ellipse((width // 10, height // 8, width // 2, height // 8 + width * 2 // 5), fill=(220, 40, 40))
    pen.rectangle((width * 6 // 10, height // 2, width * 9 // 10, height * 9 // 10), fill=(30, 80, 210))
    return made


def longer(model: StandardizedTransformer, encoding: Mapping[str, Any]) -> dict[str, Any]:
    """The same prompt with some tokens more behind it and with other pixels: a neighbour that has nothing to say.

    Raises:
        InputError: Its fields cannot be continued by the token.
    """
    mask = encoding.get("attention_mask")
    if "position_ids" in encoding or (mask is not None and mask.ndim != 2):
        raise InputError("the encoding spells its positions or a whole attention mask, which no longer prompt has")
    ids: Tensor = encoding["input_ids"]
    held = [model.placeholder(name) for name in ("image", "video")]
    plain = [one for one in ids[0].tolist() if one not in held]
    if not plain:
        raise InputError("the prompt is image tokens alone")
    made = dict(encoding)
    for name, given in encoding.items():
        if name == "input_ids":
            made[name] = torch.cat([ids, ids.new_full((len(ids), ADDED), plain[-1])], dim=1)
        elif name == "attention_mask":
            made[name] = torch.cat([given, given.new_ones(len(given), ADDED)], dim=1)
        elif name == "mm_token_type_ids":
            made[name] = torch.cat([given, given.new_zeros(len(given), ADDED)], dim=1)
        elif name in (*inputs.PER_TOKEN, *inputs.BY_POSITION):
            made[name] = torch.cat([given, given[:, -1:].repeat_interleave(ADDED, dim=1)], dim=1)
        elif name == "pixel_values":
            made[name] = given.flip(-1) * 0.5
    return made
