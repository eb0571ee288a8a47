"""What a stranger tried: types, modes, hooks, words and arguments that are not the usual ones."""

import pytest
import torch
from test_knockout import masked, square
from transformers import AutoModelForImageTextToText

import belvedere
from belvedere import InputError, StandardizedTransformer, shapes
from belvedere.experiments import (
    ablate,
    attribute,
    knockout,
    lens,
    logit,
    logit_difference,
    patch,
    relevance,
    steer,
    steering_vector,
    tower_lens,
)
from belvedere.testing import tiny

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


def right_padded(encoding, count=3):
    padded = {name: torch.nn.functional.pad(encoding[name], (0, count)) for name in ("input_ids", "attention_mask")}
    return {**encoding, **padded}


def test_padding_on_the_right_is_no_part_of_a_prompt(shown_model, direction):
    (shown, hidden), answers = asked()
    metric = logit_difference(*shown_model.tokenizer.convert_tokens_to_ids(answers))
    encodings = [encoding_of(shown_model, one) for one in (shown, hidden)]
    last = encodings[0]["input_ids"].shape[1] - 1
    options = {"factors": (0, 4), "max_new_tokens": 4}
    padded = [right_padded(one) for one in encodings]
    written = steer(shown_model, padded[0], direction, **options).tokens
    assert torch.equal(written, steer(shown_model, encodings[0], direction, **options).tokens)
    raw = plain().generate(**encodings[0], max_new_tokens=4, do_sample=False)[0, last + 1 :].tolist()
    assert written[0].tolist()[: len(raw)] == raw
    found = patch(shown_model, *padded, "layers.layer_output", metric, positions=[-1], layers=[1])
    assert found.positions == ((last,),)
    assert lens(shown_model, padded[0], positions=[-1]).positions == (last,)


def test_dropout_is_off_while_an_experiment_runs_and_on_behind_it():
    (shown, hidden), answers = asked()
    model = loaded()
    metric = logit_difference(*model.tokenizer.convert_tokens_to_ids(answers))
    runs = {
        "patch": lambda: patch(model, shown, hidden, "layers.layer_output", metric, layers=[1]).raw,
        "attribute": lambda: attribute(model, shown, hidden, "layers.layer_output", metric, layers=[1]).raw,
        "ablate": lambda: ablate(model, shown, "layers.layer_output", metric, layers=[1]).raw,
        "knockout": lambda: knockout(model, shown, ("last", "image"), metric).raw,
        "lens": lambda: lens(model, shown).probabilities,
        "tower_lens": lambda: tower_lens(model, shown).probabilities,
        "relevance": lambda: relevance(model, shown, answer=[9]).relevance,
        "steer": lambda: steer(model, shown, steering_vector(model, [shown], [hidden], 1), factors=(1,)).scores,
    }
    wanted = {name: run() for name, run in runs.items()}
    for part in model._module.modules():
        if hasattr(part, "attention_dropout"):
            part.attention_dropout = 0.5
    model._module.train()
    model._module.lm_head.eval()
    modes = [part.training for part in model._module.modules()]
    for name, run in runs.items():
        torch.testing.assert_close(run(), wanted[name], msg=name)
    assert [part.training for part in model._module.modules()] == modes


def test_labels_of_a_processor_are_left_out():
    made = tiny("paligemma")
    shown = dict(made.model.processor(text=[made.prompt], images=[made.images], suffix="a", return_tensors="pt"))
    assert "labels" in shown
    found = patch(made.model, shown, {**shown, "pixel_values": -shown["pixel_values"]}, "layers.layer_output", logit(9))
    assert found.settings["cells"] != "whole forwards"


def test_gradients_can_be_had_in_inference_mode(shown_model):
    (shown, hidden), answers = asked()
    metric = logit_difference(*shown_model.tokenizer.convert_tokens_to_ids(answers))
    given = ("layers.layer_output", metric)
    wanted = attribute(shown_model, shown, hidden, *given, layers=[1]).raw
    with torch.inference_mode():
        encodings = [encoding_of(shown_model, one) for one in (shown, hidden)]
        assert torch.equal(attribute(shown_model, *encodings, *given, layers=[1]).raw, wanted)
        assert relevance(shown_model, encodings[0]).relevance.abs().max() > 0


def test_what_is_no_standardized_model_is_refused(shown_model):
    (shown, _), _ = asked()
    for model in (shown_model._module, "shapes-llava"):
        with pytest.raises(InputError, match="pass a StandardizedTransformer"):
            lens(model, shown)
