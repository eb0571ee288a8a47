"""Ablation, knockout and attribution along a way, against one plain trace per cell, and what of the model they run."""

import sys

import naive
import pytest
import torch
from test_engine import ALL, BOTH, METRIC, TOWER_BOTH, TOWER_TRACED, TRACED, flops, model_of, pair_of

from belvedere import StandardizedTransformer, shapes
from belvedere.experiments import ablate, attribute, knockout, logit_difference, stand_in
from belvedere.experiments.engine.masked import Masked
from belvedere.experiments.engine.replay import Replay
from belvedere.experiments.engine.resumed import BEHIND, SOME, Resumed
from belvedere.testing import build

#: A packed window tower, a tiled tower, deepstack.
RANDOM = ("qwen2_5_vl", "llava_next", "qwen3_vl")
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
VALUES = ("layers.layer_output", "layers.attention_output", "vision.layers.layer_output", "vision.layers.mlp_output")
_singles = {}


def single(name):
    """A random model in single precision with a clean and a corrupt encoding, or a trained one with a pair of scenes.

    And what is measured.
    """
    if name not in _singles:
        if name in shapes.CHECKPOINTS:
            model = model_of(name)
            scenes = shapes.pair(1, checkpoint=name, images=1)
            sides = [dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes]
            words = [model.tokenizer(s.answer, add_special_tokens=False)["input_ids"][0] for s in scenes]
            _singles[name] = model, *sides, logit_difference(*words)
        else:
            sides = (
                {key: one.float() if one.is_floating_point() else one for key, one in side.items()}
                for side in pair_of(name)
            )
            _singles[name] = StandardizedTransformer(build(name)), *sides, METRIC
    return _singles[name]


def pictured(encoding, model):
    return (encoding["input_ids"][0] == model.placeholder("image")).nonzero().flatten().tolist()


NAMES = [*RANDOM, *(pytest.param(name, marks=pytest.mark.trained) for name in shapes.CHECKPOINTS)]


# Ablation


@pytest.mark.parametrize("by", ["zero", "mean", "resample"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", NAMES)
def test_an_ablation_equals_one_trace_per_cell(name, value, by):
    model, shown, other, metric = single(name)
    tower = value.startswith("vision")
    length = shown["input_ids"].shape[1]
    groups = ((1,), (3, 6), (11,)) if tower else ((6,), (4, length // 2), (length - 1,))
    rows = (lambda _: list(range(8))) if tower else (lambda given: pictured(given, model))
    references = [] if by == "zero" else [shown, other]
    new = stand_in(model, value, by=by, references=references, at=range(8) if tower else None)
    result = ablate(model, shown, value, metric, by=new, positions=groups)
    assert result.settings["cells"] == (TOWER_BOTH if tower else BOTH)

    def vectors(layer, group):
        if by == "zero":
            return 0
        if by == "mean":
            return naive.mean_of(model, [shown, other], value, layer, rows)
        return new.vectors(layer, group)

    by_hand = naive.ablated(model, shown, value, metric, result.layers, result.positions, vectors)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)
    assert (by_hand - result.plain).abs().max() > 1e-4


def test_an_ablation_of_what_only_a_trace_can_write_begins_at_its_block():
    model, shown = model_of("mllama"), pair_of("mllama")[0]
    result = ablate(model, shown, "layers.attention_output", METRIC, positions=[1, 4, 5])
    assert result.settings["cells"] == TRACED + BEHIND
    assert "at an operation inside a forward" in result.settings["because"]
    by_hand = naive.ablated(
        model, shown, "layers.attention_output", METRIC, result.layers, result.positions, lambda *_: 0
    )
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)


def test_a_vector_that_is_there_already_is_not_run():
    model, shown, _, _ = single("qwen2_5_vl")
    counts = []

    def metric(logits):
        counts.append(len(logits))
        return METRIC(logits)

    places = pictured(shown, model)
    new = stand_in(model, "layers.layer_input", references=[shown], at=[places[2]], layers=[0])
    result = ablate(model, shown, "layers.layer_input", metric, by=new, layers=[0], positions=places[1:4])
    assert sum(counts[1:]) == 2
    assert result.effects[0, 1] == 0


def test_a_killed_ablation_goes_on_from_its_file(tmp_path):
    model, shown, other, metric = single("qwen2_5_vl")
    file, calls = tmp_path / "gone.safetensors", []

    def killed(logits):
        calls.append(len(logits))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return metric(logits)

    options = {"positions": [5, 6, 7, 8], "layers": [0, 1], "batch_cells": 2, "file": file}
    with pytest.raises(KeyboardInterrupt):
        ablate(model, shown, "layers.layer_output", killed, **options)
    result = ablate(model, shown, "layers.layer_output", killed, **options)
    assert calls == [1, 2, 2, 1, 2, 2, 2]
    plain = ablate(model, shown, "layers.layer_output", metric, **{**options, "file": None})
    torch.testing.assert_close(result.raw, plain.raw)
    with pytest.raises(ValueError, match="its by differ"):
        ablate(model, shown, "layers.layer_output", killed, by="mean", references=[other], **options)


# Knockout


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("window", [1, None])
@pytest.mark.parametrize("stack", ["text", "vision"])
@pytest.mark.parametrize("name", NAMES)
def test_a_knockout_equals_one_trace_per_cell(name, stack, window, renormalize):
    model, shown, _, metric = single(name)
    last = shown["input_ids"].shape[1] - 1
    edges = {
        "vision": [(list(range(16)), list(range(8))), ([5, 6], [1, 2, 7]), ([2], [2, 3])],
        "text": [([last], [5, 6, 7]), ([last - 1, last], [2]), ([9, 10], [6, 8])],
    }[stack]
    named = {str(number): pair for number, pair in enumerate(edges)}
    result = knockout(model, shown, named, metric, stack=stack, window=window, renormalize=renormalize)
    way = TOWER_TRACED if stack == "vision" else TRACED
    if len(edges) * len(result.windows) > SOME:
        way = Masked.WAY if renormalize and stack == "text" else way + BEHIND
    assert result.settings["cells"] == way
    by_hand = naive.cut(model, shown, stack, edges, metric, result.windows, renormalize)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)
    assert (by_hand - result.plain).abs().max() > 1e-4


@pytest.mark.parametrize("window", [1, 2, None])
@pytest.mark.parametrize("name", [*NAMES, "paligemma", "lfm2_vl", "llama4"])
def test_many_cuts_by_masks_equal_one_trace_per_cell(name, window):
    if name in ("paligemma", "lfm2_vl", "llama4"):
        model, shown, metric = model_of(name), pair_of(name)[0], METRIC
    else:
        model, shown, _, metric = single(name)
    last = shown["input_ids"].shape[1] - 1
    edges = [([last], [number]) for number in range(1, last)][:8]
    # Of the last one's rows nothing is left.
    edges += [([last - 1, last - 2], [2, 3]), ([2, last], [0, 1, 2])]
    named = {str(number): pair for number, pair in enumerate(edges)}
    result = knockout(model, shown, named, metric, window=window)
    assert result.settings["cells"] == Masked.WAY
    by_hand = naive.cut(model, shown, "text", edges, metric, result.windows, True)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)
    assert (by_hand - result.plain).abs().max() > 1e-4


def test_masks_that_do_not_agree_are_not_used(monkeypatch):
    cut = Replay._cut
    monkeypatch.setattr(Replay, "_cut", lambda self, number, *given: cut(self, number, *given) if number else given[1:])
    model, shown = StandardizedTransformer(build("llava").double()), pair_of("llava")[0]
    edges = [([20], [number]) for number in range(4, 14)]
    result = knockout(model, shown, {str(number): pair for number, pair in enumerate(edges)}, METRIC)
    assert result.settings["cells"] == TRACED
    assert result.settings["because"] == "InputError: a trial by masks did not agree with a trace"
    by_hand = naive.cut(model, shown, "text", edges, METRIC, result.windows, True)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)


def test_edges_that_nobody_attends_along_are_not_run():
    model, shown = model_of("llava"), pair_of("llava")[0]
    counts = []

    def metric(logits):
        counts.append(len(logits))
        return METRIC(logits)

    pairs = {"back": ([20], [5]), "ahead": ([5], [20]), "mixed": ([5, 20], [6])}
    result = knockout(model, shown, pairs, metric, window=1)
    assert result.mass[1].tolist() == [0, 0, 0]
    assert result.effects[1].tolist() == [0, 0, 0]
    # The first is the untouched run.
    assert sum(counts[1:]) == 6


# Attribution


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", NAMES)
def test_steps_of_an_attribution_equal_one_trace_each(name, value):
    model, clean, corrupt, metric = single(name)
    groups = None if name in shapes.CHECKPOINTS else ((6,), tuple(range(3, 11)), tuple(range(11, 16)))
    result = attribute(model, clean, corrupt, value, metric, positions=groups, steps=2)
    assert result.settings["cells"] == (TOWER_TRACED if value.startswith("vision") else TRACED)
    by_hand = naive.attributed(model, clean, corrupt, value, metric, result.layers, result.positions, 2)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)
    assert by_hand.abs().max() > 1e-4


# What cannot be taken up in the middle


@pytest.mark.parametrize("renormalize", [True, False])
def test_keys_that_blocks_share_are_there_where_a_run_is_taken_up(renormalize):
    model, shown = model_of("gemma4"), pair_of("gemma4")[0]
    edges = [([20], [5, 6]), ([21], [8]), ([20, 21], [7]), ([21], [18]), ([21], [19])]
    named = {str(number): pair for number, pair in enumerate(edges)}
    result = knockout(model, shown, named, METRIC, window=1, renormalize=renormalize)
    if renormalize:
        assert result.settings["cells"] == Masked.WAY
    else:
        # What an edited block leaves for others is its own, so that these are run and not replayed.
        assert result.settings["cells"] == TRACED
        assert "leave something for others" in result.settings["because"]
    by_hand = naive.cut(model, shown, "text", edges, METRIC, result.windows, renormalize)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)


def test_an_edited_model_is_run_whole_and_says_why():
    model, shown = StandardizedTransformer(build("llava").double()), pair_of("llava")[0]
    with model.edit(inplace=True):
        model.layers[0].mlp.mlp_output[:] *= 0.5
    edges = [([20], [5, 6]), ([21], [8])]
    result = knockout(model, shown, dict(zip("ab", edges, strict=True)), METRIC, window=1)
    assert result.settings["cells"] == ALL
    assert result.settings["because"]
    by_hand = naive.cut(model, shown, "text", edges, METRIC, result.windows, True)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)


def test_a_run_that_is_taken_up_wrongly_is_not_used(monkeypatch):
    passing = Resumed._passing

    def wrong(self, start, copies):
        answer = passing(self, start, copies)
        return lambda *given: answer(*given) * 1.01

    monkeypatch.setattr(Resumed, "_passing", wrong)
    model, shown = StandardizedTransformer(build("llava").double()), pair_of("llava")[0]
    result = knockout(model, shown, {"a": ([20], [5]), "b": ([21], [8])}, METRIC, window=1)
    assert result.settings["cells"] == ALL
    assert "did not agree with a whole forward" in result.settings["because"]
    by_hand = naive.cut(model, shown, "text", [([20], [5]), ([21], [8])], METRIC, result.windows, True)
    torch.testing.assert_close(result.raw, by_hand, **CLOSE)


def test_a_few_cells_are_whole_forwards():
    model, shown = model_of("llava"), pair_of("llava")[0]
    result = knockout(model, shown, ([20], [5]), METRIC)
    assert result.settings["cells"] == ALL
    assert "no more than a trial" in result.settings["because"]


# What is run


@pytest.mark.parametrize(("value", "least"), [("layers.layer_output", 5), ("vision.layers.layer_output", 1.2)])
def test_an_ablation_counts_far_fewer_operations_than_whole_forwards(value, least):
    model, shown = model_of("llava"), pair_of("llava")[0]
    result = ablate(model, shown, value, METRIC)
    with torch.no_grad():
        whole = flops(lambda: model._module(**shown)) * result.raw.numel()
    assert whole / flops(lambda: ablate(model, shown, value, METRIC)) > least


@pytest.mark.parametrize(("stack", "least"), [("text", 4), ("vision", 1.1)])
def test_a_knockout_counts_fewer_operations_than_whole_forwards(stack, least):
    model, shown = model_of("llava"), pair_of("llava")[0]
    queries, keys = ([20], range(4, 20)) if stack == "text" else ([3], range(4, 16))
    edges = [(queries, [number]) for number in keys]
    named = {str(number): pair for number, pair in enumerate(edges)}
    windows = knockout(model, shown, named, METRIC, stack=stack, window=1).windows
    ours = flops(lambda: knockout(model, shown, named, METRIC, stack=stack, window=1))
    whole = flops(lambda: naive.cut(model, shown, stack, edges, METRIC, windows, True))
    assert whole / ours > least


def test_the_tower_does_not_run_for_a_cut_in_the_text():
    model, shown, counts = model_of("qwen3_vl"), pair_of("qwen3_vl")[0], []
    pairs = {str(number): ([20], [number]) for number in range(4, 16)}
    knockout(model, shown, pairs, METRIC, window=1, renormalize=False)
    hook = model.vision.layers[0].mlp._module.register_forward_hook(lambda *_: counts.append("tower"))
    first = model.layers[0].mlp._module.register_forward_hook(lambda *_: counts.append("text"))
    result = knockout(model, shown, pairs, METRIC, window=1, batch_cells=1, renormalize=False)
    hook.remove()
    first.remove()
    assert result.settings["cells"] == TRACED + BEHIND
    # The masses, the plain run, and what tells how things grow and add up; the cells run text alone.
    assert counts.count("tower") == 5
    # Of the cells, those of the first block alone run it; before them, as many runs as of the tower. The hooks make the
    # trial a new one, and are inside of the blocks, as with one on a block every cell is a whole forward.
    assert counts.count("text") == 5 + len(pairs)


@pytest.mark.parametrize("stack", ["text", "vision"])
def test_the_model_is_as_it_was_after_an_error_in_a_cell(stack, monkeypatch):
    model, shown = model_of("llava"), pair_of("llava")[0]
    pairs = {str(number): ([3], [number]) for number in range(3)}
    knockout(model, shown, pairs, METRIC, stack=stack, window=1, renormalize=False)
    with model.trace(**shown):
        before = model.logits.save()
    hooks = [(dict(part._forward_hooks), vars(part).get("forward")) for part in model._module.modules()]

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(sys.modules[knockout.__module__], "without", broken)
    with pytest.raises(ZeroDivisionError):
        knockout(model, shown, pairs, METRIC, stack=stack, window=1, renormalize=False)
    assert hooks == [(dict(part._forward_hooks), vars(part).get("forward")) for part in model._module.modules()]
    with model.trace(**shown):
        after = model.logits.save()
    assert torch.equal(before, after)


def test_an_error_in_the_metric_of_an_attribution_leaves_the_model_as_it_was():
    model, (clean, corrupt), calls = model_of("llava"), pair_of("llava"), []

    def broken(logits):
        calls.append(1)
        if len(calls) > 3:
            raise ZeroDivisionError
        return METRIC(logits)

    attribute(model, clean, corrupt, "layers.layer_output", METRIC, positions=[6, 7], steps=2)
    hooks = [(dict(part._forward_hooks), vars(part).get("forward")) for part in model._module.modules()]
    with pytest.raises(ZeroDivisionError):
        attribute(model, clean, corrupt, "layers.layer_output", broken, positions=[6, 7], steps=2)
    assert hooks == [(dict(part._forward_hooks), vars(part).get("forward")) for part in model._module.modules()]
