"""What a stranger tried: types, modes, hooks, words and arguments that are not the usual ones."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from raw import captured, hooked
from test_knockout import masked, square
from transformers import AutoModelForImageTextToText

import belvedere
from belvedere import InputError, StandardizedTransformer, shapes
from belvedere.experiments import (
    Inside,
    ablate,
    attribute,
    kl_divergence,
    knockout,
    lens,
    logit,
    logit_difference,
    patch,
    probability,
    rank,
    relevance,
    stand_in,
    steer,
    steering_vector,
    tower_lens,
)
from belvedere.experiments.metrics import metric_name
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


def test_words_are_tokens_of_the_model(shown_model):
    (shown, hidden), answers = asked()
    numbers = shown_model.tokenizer.convert_tokens_to_ids(answers)
    given = (shown_model, shown, hidden, "layers.layer_output")
    spelled = patch(*given, logit_difference(*answers), layers=[1])
    assert torch.equal(spelled.raw, patch(*given, logit_difference(*numbers), layers=[1]).raw)
    with torch.no_grad():
        logits = plain()(**encoding_of(shown_model, shown)).logits[0, -1]
    assert spelled.clean == pytest.approx(float(logits[numbers[0]] - logits[numbers[1]]), abs=1e-4)
    assert spelled.settings["metric"] == "logit difference, blue - cyan"
    for metric, name in ((logit, "logit of blue"), (probability, "probability of blue"), (rank, "rank of blue")):
        found = [ablate(*given[:2], given[3], metric(token), layers=[1]) for token in (answers[0], numbers[0])]
        assert torch.equal(found[0].raw, found[1].raw)
        assert {one.settings["metric"] for one in found} == {name}
    assert knockout(*given[:2], ("last", "image"), logit("blue")).settings["metric"] == "logit of blue"
    assert attribute(*given, logit("blue"), layers=[1]).settings["metric"] == "logit of blue"
    assert lens(*given[:2], watch=answers).watch == lens(*given[:2], watch=numbers).watch == tuple(numbers)
    assert relevance(*given[:2], answer="blue", metric=logit_difference(*answers)).tokens == (numbers[0],)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (lambda: logit_difference("blue", "blau"), "does not know 'blau'; pass a word"),
        (lambda: logit("what color"), r"'what color' is 2 tokens and not one: 'what' \(\d+\), 'color'"),
        (lambda: probability(1), "token 1 is '<unk>', which the tokenizer gives for every word"),
        (lambda: rank(44), "there is no token 44; the vocabulary has 44"),
        (lambda: logit(-1), "-1 is no token; pass a word, or a token's number"),
        (lambda: logit(1.5), "1.5 is no token"),
        (lambda: logit([36]), "is no token"),
        (lambda: kl_divergence(torch.zeros(1, 7)), "the reference has 7 logits and the run 44"),
        (lambda: lambda logits: logits[:, 5] + 0j, "must give a finite number per row"),
        (lambda: lambda logits: logits[0, 5], "must give a finite number per row"),
        (lambda: lambda logits: logits[:, 5] * torch.nan, "must give a finite number per row"),
        (lambda: lambda logits: logits[0], "must give a finite number per row"),
        (lambda: 5, "5 is no metric"),
    ],
)
def test_what_no_metric_can_be_of_is_refused_by_all(shown_model, direction, metric, said):
    (shown, hidden), _ = asked()
    value = "layers.layer_output"
    runs = [
        lambda metric: patch(shown_model, shown, hidden, value, metric, layers=[1]),
        lambda metric: attribute(shown_model, shown, hidden, value, metric, layers=[1]),
        lambda metric: ablate(shown_model, shown, value, metric, layers=[1]),
        lambda metric: knockout(shown_model, shown, ("last", "image"), metric),
        lambda metric: steer(shown_model, shown, direction, metric=metric, factors=(1,)),
        lambda metric: relevance(shown_model, shown, metric=metric),
    ]
    for run in runs:
        with pytest.raises(InputError, match=said):
            run(metric())


def test_a_metric_of_one_row_for_all_is_refused(shown_model):
    (shown, hidden), _ = asked()
    with pytest.raises(InputError, match="must give a finite number per row"):
        patch(shown_model, shown, hidden, "layers.layer_output", lambda logits: logits[:1, 5], layers=[1])


def test_relevance_of_how_far_a_run_is_from_itself_is_refused(shown_model):
    (shown, _), _ = asked()
    with pytest.raises(InputError, match="KL divergence from a run has no slope at that run"):
        relevance(shown_model, shown, metric=kl_divergence())


def test_words_without_a_tokenizer_are_refused(llava_rig):
    with pytest.raises(InputError, match="has no tokenizer that knows 'red'; pass the token's number"):
        lens(llava_rig.model, llava_rig.clean, watch="red")
    with pytest.raises(InputError, match="'red' is a word, whose number a model's tokenizer knows"):
        logit("red")(torch.zeros(1, 5))


class Second:
    def __call__(self, logits):
        return logits[:, 1]


def test_the_name_of_a_metric_has_no_address():
    assert metric_name(Second()) == "Second"
    assert metric_name(partial(torch.argmax, dim=1)) == "argmax(dim=1)"
    assert metric_name(logit_difference(9, 20)) == "logit difference, token 9 - token 20"


def test_blocks_are_read_alike_by_all(shown_model):
    (shown, hidden), _ = asked()
    value, metric = "layers.layer_output", logit("blue")
    runs = {
        "patch": lambda layers: patch(shown_model, shown, hidden, value, metric, layers=layers).layers,
        "attribute": lambda layers: attribute(shown_model, shown, hidden, value, metric, layers=layers).layers,
        "ablate": lambda layers: ablate(shown_model, shown, value, metric, layers=layers).layers,
        "lens": lambda layers: lens(shown_model, shown, layers=layers).layers,
        "knockout": lambda layers: knockout(shown_model, shown, ("last", "image"), metric, layers=layers).windows[0],
        "tower_lens": lambda layers: tower_lens(shown_model, shown, layers=layers).layers,
    }
    for name, run in runs.items():
        last = shown_model.vision.num_layers - 1 if name == "tower_lens" else shown_model.num_layers - 1
        for layers, wanted in ((1, (1,)), ([-1], (last,)), (torch.tensor([1]), (1,)), ([1, 0, 1], (0, 1))):
            assert run(layers) == wanted
        for layers, said in (
            (["0"], "`layers` has '0', which is no whole number"),
            ([1.0], "`layers` has 1.0, which is no whole number"),
            ([True], "`layers` has True, which is no whole number"),
            ([99], "there is no block 99"),
            ([], "`layers` is empty"),
        ):
            with pytest.raises(InputError, match=said):
                run(layers)


@pytest.mark.parametrize(
    ("positions", "said"),
    [
        ([1.5], "`positions` has 1.5, which is no whole number"),
        ([5, 5], "position 5 is asked for twice"),
        ([-1, 83], "there is no position 83"),
        ([], "`positions` is empty"),
    ],
)
def test_positions_that_are_none_are_refused_by_all(shown_model, positions, said):
    (shown, hidden), _ = asked()
    given = ("layers.layer_output", logit("blue"))
    runs = [
        lambda positions: patch(shown_model, shown, hidden, *given, positions=positions),
        lambda positions: ablate(shown_model, shown, *given, positions=positions),
    ]
    if "twice" not in said:
        runs += [
            lambda positions: lens(shown_model, shown, positions=positions),
            lambda positions: knockout(shown_model, shown, (positions, "image"), given[1]),
            lambda positions: steering_vector(shown_model, [shown], [hidden], 1, positions),
        ]
    for run in runs:
        with pytest.raises(InputError, match=said):
            run(positions)


def test_a_position_that_is_twice_in_a_group_is_there_once(shown_model):
    (shown, hidden), _ = asked()
    given = (shown_model, shown, hidden, "layers.layer_output", logit("blue"))
    assert patch(*given, layers=[1], positions=[[5, 5], 7]).positions == ((5,), (7,))
    assert patch(*given, layers=[1], positions=torch.tensor([5, 7])).positions == ((5,), (7,))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda m, s, h: patch(m, s, h, None, logit(9)), "the value is None; pass its path"),
        (lambda m, s, h: patch(m, s, h, "layers.layer_output", logit(9), batch_cells=1.5), "`batch_cells` has 1.5"),
        (lambda m, s, h: ablate(m, s, "layers.layer_output", logit(9), batch_cells="8"), "`batch_cells` has '8'"),
        (lambda m, s, h: knockout(m, s, ("last", "image"), logit(9), batch_cells=0), "at least one cut goes into"),
        (lambda m, s, h: knockout(m, s, ("last", "image"), logit(9), heads=[0.5]), "`heads` has 0.5"),
        (
            lambda m, s, h: patch(m, s, h, "layers.attention_head_outputs", logit(9), heads=[0, 0]),
            "head 0 is asked for twice",
        ),
        (lambda m, s, h: steering_vector(m, s, [h], 1), "`positive` is one input; pass a list of them"),
        (
            lambda m, s, h: stand_in(m, "layers.mlp_output", references=s),
            "`references` is one input; pass a list of them",
        ),
        (lambda m, s, h: lens(m, {"text": s["text"].replace("<image>", "")}), "it shows no picture"),
        (lambda m, s, h: tower_lens(m, {"text": "what color"}), "it shows no picture"),
        (lambda m, s, h: lens(m, s, positions=Inside((0, 0, 5))), "this one has 3 numbers"),
        (lambda m, s, h: lens(m, s, positions=Inside((0, 0, 5, 5), image=-1)), "pictures are counted from 0"),
        (lambda m, s, h: lens(m, encoding_of(m, s), positions=Inside((0, 0, 9, 9))), "size=\\(width, height\\)"),
    ],
)
def test_arguments_that_are_none_are_refused(shown_model, run, said):
    with pytest.raises(InputError, match=said):
        run(shown_model, *asked()[0])


def first_of(output, edit):
    return (edit(output[0]), *output[1:]) if isinstance(output, tuple) else edit(output)


HOOKED = {
    "a text block": "model.language_model.layers.2",
    "a tower block": "model.vision_tower.encoder.layers.1",
    "the text model": "model.language_model",
    "the head": "lm_head",
    "an attention": "model.language_model.layers.2.self_attn",
}


def hook_on(module, path):
    """Halve what a module returns, or of a stack's record its stream."""

    def halve(_module, _args, output):
        if hasattr(output, "last_hidden_state"):
            output["last_hidden_state"] = output.last_hidden_state / 2
            return output
        return first_of(output, lambda held: held / 2)

    return module.get_submodule(path).register_forward_hook(halve)


@pytest.mark.parametrize("place", HOOKED)
def test_a_hook_of_your_own_is_in_the_ends_and_in_the_cells(place):
    (shown, hidden), answers = asked()
    model, raw = loaded(), plain()
    metric = logit_difference(*model.tokenizer.convert_tokens_to_ids(answers))
    for module in (model._module, raw):
        hook_on(module, HOOKED[place])
    encodings = [encoding_of(model, one) for one in (shown, hidden)]
    for value, path, position in (
        ("layers.layer_output", "model.language_model.layers.1", 20),
        ("vision.layers.layer_output", "model.vision_tower.encoder.layers.0", 10),
    ):
        clean, logits = captured(raw, (path, "output"), encodings[0])

        def written(held, clean=clean, position=position):
            held = held.clone()
            held[:, position] = clean[:, position]
            return held

        cell = hooked(raw, (path, "output"), encodings[1], written)
        layer = int(path[-1])
        found = patch(model, shown, hidden, value, metric, layers=[layer], positions=[position])
        assert found.clean == pytest.approx(float(metric(logits[None])), abs=1e-3)
        assert float(found.raw[0, 0]) == pytest.approx(float(metric(cell[None])), abs=1e-3)
        if place != "an attention":
            assert f"a hook that is not Belvedere's is on {HOOKED[place]} " in found.settings["because"]


def test_a_hook_of_your_own_is_in_cuts_and_steps():
    (shown, hidden), answers = asked()
    model, plain_model = loaded(), loaded()
    metric = logit_difference(*answers)
    hook_on(model._module, HOOKED["a text block"])
    found = knockout(model, shown, {"a": ("text", "image"), "b": ("last", "all")}, metric, window=1)
    assert "a hook that is not Belvedere's is on" in found.settings["because"]
    raw = plain()
    hook_on(raw, HOOKED["a text block"])
    with torch.no_grad():
        logits = raw(**encoding_of(model, shown)).logits[0, -1]
    numbers = model.tokenizer.convert_tokens_to_ids(answers)
    assert found.plain == pytest.approx(float(logits[numbers[0]] - logits[numbers[1]]), abs=1e-3)
    along = attribute(model, shown, hidden, "layers.layer_output", metric, steps=8)
    assert along.clean == pytest.approx(found.plain, abs=1e-3)
    assert "a hook that is not Belvedere's is on" in along.settings["because"]
    assert attribute(plain_model, shown, hidden, "layers.layer_output", metric).clean != pytest.approx(along.clean)


def test_an_ablation_s_file_of_other_weights_is_refused(tmp_path):
    (shown, _), _ = asked()
    model, options = loaded(), {"layers": [1], "file": tmp_path / "sweep.safetensors"}
    ablate(model, shown, "layers.layer_output", logit("blue"), **options)
    with torch.no_grad():
        model._module.model.language_model.layers[2].mlp.down_proj.weight[3, 5] += 1e-6
    with pytest.raises(InputError, match="its weights differ"):
        ablate(model, shown, "layers.layer_output", logit("blue"), **options)


def test_a_hook_that_no_trace_sees_is_refused():
    (shown, hidden), _ = asked()
    model = loaded()
    handle = model._module.register_forward_hook(lambda _module, _args, output: output)
    with pytest.raises(InputError, match="the whole model has a forward hook"):
        patch(model, shown, hidden, "layers.layer_output", logit("blue"))
    handle.remove()
    hook_on(model._module, "model.language_model.layers.2")
    with pytest.raises(InputError, match="block 2 has a forward hook that is not Belvedere's"):
        lens(model, shown)
    assert lens(model, shown, layers=[0, 1]).layers == (0, 1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_query_of_which_every_edge_is_cut_reads_nothing(dtype):
    (shown, _), _ = asked()
    model, raw = loaded(dtype), plain(dtype)
    metric = logit("blue")
    found = knockout(model, shown, ("last", "all"), metric, layers=[1])
    given = encoding_of(model, shown)
    given["pixel_values"] = given["pixel_values"].to(raw.dtype)

    def no_last(output):
        output = output.clone()
        output[:, -1] = 0
        return output

    raw.model.language_model.layers[1].self_attn.register_forward_hook(lambda _m, _a, out: first_of(out, no_last))
    with torch.no_grad():
        expected = raw(**given).logits[0, -1, model.tokenizer.convert_tokens_to_ids("blue")]
    assert float(found.raw[0, 0]) == pytest.approx(float(expected), abs=TYPES[dtype])


@pytest.mark.parametrize("other", ["a type", "one number", "two numbers swapped"])
def test_a_file_of_other_weights_is_refused(other, tmp_path):
    (shown, hidden), answers = asked()
    given = (shown, hidden, "layers.layer_output", logit_difference(*answers))
    options = {"layers": [1], "file": tmp_path / "sweep.safetensors"}
    wanted = patch(loaded(), *given, **options)
    assert torch.equal(patch(loaded(), *given, **options).raw, wanted.raw)
    model = loaded("float64" if other == "a type" else "float32")
    weight = model._module.model.language_model.layers[2].mlp.down_proj.weight
    with torch.no_grad():
        if other == "one number":
            weight[3, 5] += 1e-6
        if other == "two numbers swapped":
            weight[0, :2] = weight[0, :2].flip(0)
    with pytest.raises(InputError, match=r"holds another sweep: its weights differ\(s\) from this one's"):
        patch(model, *given, **options)


def test_files_that_cannot_be_are_refused(shown_model, tmp_path):
    (shown, hidden), _ = asked()
    given = (shown_model, shown, hidden, "layers.layer_output", logit("blue"))
    result = patch(*given, layers=[1])
    for path, said in ((tmp_path / "none" / "a.safetensors", "there is no folder"), (tmp_path, "is a folder; pass a")):
        with pytest.raises(InputError, match=said):
            result.save(path)
        with pytest.raises(InputError, match=said):
            patch(*given, layers=[1], file=path)
    with pytest.raises(InputError, match="is a folder; pass the file"):
        type(result).load(tmp_path)


def test_a_truth_of_something_else_is_refused(shown_model):
    (shown, hidden), _ = asked()
    (other, _), _ = asked(8)
    given, options = ("layers.layer_output", logit("blue")), {"layers": [1]}
    estimate = attribute(shown_model, shown, hidden, *given, **options)
    truth = patch(shown_model, shown, hidden, *given, **options)
    assert -1 <= estimate.correlation_with(truth) <= 1
    darker = {**other, "images": [other["images"][0].point(lambda held: held // 2)]}
    for wrong, said in (
        (patch(shown_model, shown, hidden, given[0], logit("cyan"), **options), "has other metric"),
        (patch(shown_model, darker, hidden, *given, **options), "has other inputs"),
        (ablate(shown_model, shown, *given, **options), "AblationResult is no truth of an attribution"),
        (estimate, "AttributionResult is no truth of an attribution"),
    ):
        with pytest.raises(InputError, match=said):
            attribute(shown_model, shown, hidden, *given, **options, against=wrong)
    flat = replace(truth, effects=torch.ones_like(truth.effects))
    assert "no correlation with patching" in repr(estimate.compared(flat))


def test_what_another_model_s_activations_made_is_refused(shown_model, direction):
    (shown, hidden), _ = asked()
    mean = stand_in(shown_model, "layers.mlp_output", references=[hidden])
    moved = replace(direction, settings={**direction.settings, "model": "/elsewhere/shapes-llava"})
    assert steer(shown_model, shown, moved, factors=(1,)).factors == (1.0,)
    with pytest.raises(InputError, match="the direction was made of another/model and this model is"):
        steer(shown_model, shown, replace(direction, settings={"model": "another/model"}))
    with pytest.raises(InputError, match="the stand-in was made of another/model and this model is"):
        ablate(shown_model, shown, "layers.mlp_output", logit("blue"), by=replace(mean, model="another/model"))


def test_a_stand_in_of_some_blocks_is_for_these(shown_model):
    (shown, hidden), _ = asked()
    for by in ("mean", "zero"):
        some = stand_in(shown_model, "layers.mlp_output", by=by, references=[hidden], layers=[1])
        assert ablate(shown_model, shown, "layers.mlp_output", logit("blue"), by=some, layers=[1]).layers == (1,)
        if by == "mean":
            with pytest.raises(InputError, match=r"nothing was kept of block 0; make the stand-in with layers=\[0"):
                ablate(shown_model, shown, "layers.mlp_output", logit("blue"), by=some)
        else:
            assert len(ablate(shown_model, shown, "layers.mlp_output", logit("blue"), by=some).layers) > 1


def test_how_many_cells_shared_a_forward_is_told(shown_model):
    (shown, hidden), _ = asked()
    given = (shown_model, shown, hidden, "layers.layer_output", logit("blue"))
    assert patch(*given, layers=[1], batch_cells=3).settings["batch_cells"] == 3
    assert patch(*given, layers=[1]).settings["batch_cells"] >= 1


def test_a_model_that_cannot_generate_says_so():
    made = tiny("llama4")
    shown = {"text": made.prompt, "images": made.images}
    direction = steering_vector(made.model, [shown], [shown], layer=1)
    with pytest.raises(InputError, match="llama4 cannot generate: its forward returns a tuple"):
        steer(made.model, shown, direction)
    with pytest.raises(InputError, match="llama4 cannot generate: its forward returns a tuple"):
        with made.model.generate(made.prompt, images=made.images, max_new_tokens=2):
            made.model.logits.save()
    with made.model.trace(made.prompt, images=made.images):
        logits = made.model.logits.save()
    assert torch.isfinite(logits).all()
