"""What a stranger tried: types, modes, hooks, words and arguments that are not the usual ones."""

import pytest
import torch
from test_knockout import masked, square
from transformers import AutoModelForImageTextToText

import belvedere
from belvedere import InputError, StandardizedTransformer, shapes
from belvedere.experiments import knockout, logit_difference, steer, steering_vector

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


@pytest.fixture(scope="module")
def shown_model():
    return loaded()


@pytest.fixture(scope="module")
def direction(shown_model):
    (shown, hidden), _ = asked()
    return steering_vector(shown_model, [shown], [hidden], layer=1, positions="image")


def cases_of_generation(model, shown):
    first = model.tokenizer.convert_tokens_to_ids("blue")
    end = model.tokenizer.eos_token_id
    return {
        "suppressed": {"suppress_tokens": [first]},
        "bad words": {"bad_words_ids": [[first]]},
        "penalty": {"repetition_penalty": 5.0},
        "at least": {"min_new_tokens": 4},
        "another end": {"eos_token_id": first},
        "no end": {"suppress_tokens": [end]},
    }


@pytest.mark.parametrize("case", ["suppressed", "bad words", "penalty", "at least", "another end", "no end"])
def test_what_is_written_is_what_generate_chose(shown_model, direction, case):
    (shown, _), _ = asked()
    options = cases_of_generation(shown_model, shown)[case]
    encoding = encoding_of(shown_model, shown)
    wanted = plain().generate(**encoding, max_new_tokens=5, do_sample=False, **options)
    wanted = wanted[0, encoding["input_ids"].shape[1] :].tolist()
    found = steer(shown_model, shown, direction, factors=(0,), max_new_tokens=5, **options)
    assert found.tokens[0].tolist() == [*wanted, *[-1] * (5 - len(wanted))]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_beams": 3}, "one text, a token a step"),
        ({"num_return_sequences": 2, "do_sample": True}, "one text, a token a step"),
        ({"use_cache": False}, "one text, a token a step"),
        ({"max_length": 100}, "pass max_new_tokens"),
        ({"steps": [99]}, "there is no step 99; max_new_tokens=8 makes steps 0 to 7"),
        ({"steps": [-1]}, "there is no step -1"),
        ({"steps": []}, "`steps` is empty"),
    ],
)
def test_what_steering_cannot_write_is_refused(shown_model, direction, options, said):
    (shown, _), _ = asked()
    with pytest.raises(InputError, match=said):
        steer(shown_model, shown, direction, **options)
