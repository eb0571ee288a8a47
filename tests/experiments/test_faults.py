"""What a stranger tried: types, modes, hooks, words and arguments that are not the usual ones."""

import pytest
import torch
from test_knockout import masked, square
from transformers import AutoModelForImageTextToText

import belvedere
from belvedere import StandardizedTransformer, shapes
from belvedere.experiments import knockout, logit_difference

TYPES = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-4}


def asked(number=8, checkpoint="shapes-llava"):
    """A scene and its counterfactual: what a trace takes of each, and their answers."""
    pair = shapes.pair(number, checkpoint=checkpoint)
    return [{"text": scene.prompt, "images": [scene.image]} for scene in pair], [scene.answer for scene in pair]


def loaded(dtype="float32", name="shapes-llava"):
    return StandardizedTransformer(belvedere.checkpoint(name), dispatch=True, dtype=dtype)


def plain(dtype="float32", name="shapes-llava"):
    """The same weights in a module that nnsight never touched."""
    kwargs = {"attn_implementation": "eager", "dtype": getattr(torch, dtype)}
    return AutoModelForImageTextToText.from_pretrained(belvedere.checkpoint(name), **kwargs).eval()


def encoding_of(model, shown):
    return dict(model.processor(text=[shown["text"]], images=[shown["images"]], return_tensors="pt"))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("number", [1, 2, 8])
def test_a_cut_is_a_mask_in_every_type(dtype, number):
    (shown, _), answers = asked(number)
    model, raw = loaded(dtype), plain(dtype)
    metric = logit_difference(*model.tokenizer.convert_tokens_to_ids(answers))
    found = knockout(model, shown, ("text", "image"), metric, layers=[1])
    encoding = encoding_of(model, shown)
    ids = encoding["input_ids"][0]
    image = ids == model.placeholder("image")
    queries, keys = (~image).nonzero().flatten().tolist(), image.nonzero().flatten().tolist()
    given = {**encoding, "pixel_values": encoding["pixel_values"].to(raw.dtype)}
    with masked(raw, ["model.language_model.layers.1.self_attn"], square(len(ids), queries, keys), -torch.inf):
        with torch.no_grad():
            logits = raw(**given).logits[:, -1].float()
    torch.testing.assert_close(found.raw[0, 0], metric(logits)[0], atol=TYPES[dtype], rtol=TYPES[dtype])
