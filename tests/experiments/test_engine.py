"""The engine against one plain trace per cell, in whatever way it runs a model's cells."""

import pytest
import torch
from naive import swept
from torch.utils.flop_counter import FlopCounterMode

from belvedere import StandardizedTransformer, shapes
from belvedere.experiments import engine, logit_difference, patch
from belvedere.experiments.engine.resumed import BEHIND
from belvedere.experiments.engine.traced import TracedCells
from belvedere.experiments.pairs import Pair
from belvedere.experiments.sites import Site
from belvedere.testing import ROWS, build

METRIC = logit_difference(9, 20)
TEXT = ("layers.layer_input", "layers.layer_output", "layers.attention_output", "layers.mlp_output")
TOWER = tuple(f"vision.{value}" for value in TEXT)
BOTH, BLOCK, ALL = "from the patched block and position", "from the patched block", "whole forwards"
TOWER_BOTH = "from the patched tower block and the first image token"
TRACED, TOWER_TRACED = (f"from the first changed {part}, in a trace" for part in ("block", "tower block"))
#: A packed window tower, a tiled tower, deepstack; pictures and prompts that are attended to both ways, chunks and
#: windows, keys that blocks share, a latent and a convolving mixer, a delta rule, experts.
FAMILIES = (
    "qwen2_5_vl",
    "llava_next",
    "qwen3_vl",
    "paligemma",
    "gemma3",
    "gemma4",
    "llama4",
    "kimi_k25",
    "lfm2_vl",
    "qwen3_5",
    "idefics2",
)
#: What cannot be taken up in the middle, and how it is run.
OTHERWISE = {
    # Blocks that attend to pictures take their keys from them, and add what an operation makes.
    ("mllama", "layers.layer_input"): BLOCK,
    ("mllama", "layers.attention_output"): TRACED + BEHIND,
    # Parameters of the block scale what its parts return.
    ("internvl", "vision.layers.mlp_output"): TOWER_TRACED + BEHIND,
    ("internvl", "vision.layers.layer_input"): TOWER_BOTH,
    # Without pictures it leaves blocks out.
    ("mllama_text_model", "layers.layer_output"): TRACED,
    # Its blocks get no mask by a place among their arguments.
    ("gpt2", "layers.layer_input"): BOTH,
}
#: Whose kernels take nothing finer, or whose rotations are complex numbers of single precision.
SINGLE = ("kimi_k25", "llama4")
_models = {}


def model_of(name):
    if name not in _models:
        if name in shapes.CHECKPOINTS:
            _models[name] = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
        else:
            module = build(name)
            _models[name] = StandardizedTransformer(module if name in SINGLE else module.double())
    return _models[name]


def type_of(name):
    return torch.float32 if name in SINGLE else torch.float64


def pair_of(name, pad=0):
    """A clean and a corrupt encoding of one prompt, with padding on the left where it is asked for."""
    row = ROWS[name]
    clean = {key: held.to(type_of(name)) if held.is_floating_point() else held for key, held in row.solo(0).items()}
    if pad:
        for key, fill in (("input_ids", 0), ("attention_mask", 0), ("mm_token_type_ids", 0)):
            if key in clean:
                clean[key] = torch.nn.functional.pad(clean[key], (pad, 0), value=fill)
    corrupt = dict(clean)
    if row.tower:
        made = torch.Generator().manual_seed(7)
        corrupt["pixel_values"] = torch.randn(clean["pixel_values"].shape, generator=made).to(type_of(name))
    else:
        corrupt["input_ids"] = clean["input_ids"].clone()
        corrupt["input_ids"][0, 4] = 8 + (int(clean["input_ids"][0, 4]) - 7) % 56
    return clean, corrupt


def check(name, value, positions, pad=0, way=None, batch_cells=3):
    model, (clean, corrupt) = model_of(name), pair_of(name, pad)
    result = patch(model, clean, corrupt, value, METRIC, positions=positions, batch_cells=batch_cells)
    if way is not None:
        assert result.settings["cells"] == way
    by_hand = swept(model, clean, corrupt, value, METRIC, result.layers, result.positions)
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=0)
    assert (by_hand - result.corrupt).abs().max() > 1e-4


@pytest.mark.parametrize("value", TEXT)
@pytest.mark.parametrize("name", FAMILIES)
def test_text_cells_equal_one_trace_per_cell(name, value):
    length = ROWS[name].solo(0)["input_ids"].shape[1]
    check(name, value, [6, [4, length // 2], length - 1], way=BOTH)


@pytest.mark.parametrize("value", TOWER)
@pytest.mark.parametrize("name", FAMILIES)
def test_tower_cells_equal_one_trace_per_cell(name, value):
    # What Gemma 4 hands to each text block is made of the pictures too.
    way = "from the patched tower block" if name == "gemma4" else TOWER_BOTH
    check(name, value, [1, [3, 6], 11], way=way, batch_cells=2)


@pytest.mark.parametrize(("name", "value"), OTHERWISE)
def test_what_the_engine_cannot_run_itself_is_run_in_another_way(name, value):
    check(name, value, [1, 4, 5], way=OTHERWISE[name, value])


@pytest.mark.parametrize("value", TEXT)
def test_positions_are_not_shared_where_the_mask_is_left_to_the_kernel(value):
    # GPT-2 passes no mask that could be cut, and SDPA counts from the first position that it is given.
    check("gpt2", value, [4, -1])
    check("gpt2", value, [4])


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl", "qwen3_5", "qwen3_vl"])
def test_padding_on_the_left_changes_nothing(name):
    check(name, "layers.layer_output", [5, 9, 20], pad=3, way=BOTH)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_every_attention_shares_what_comes_before(attention):
    model = StandardizedTransformer(build("llava", attention).double())
    clean, corrupt = pair_of("llava")
    result = patch(model, clean, corrupt, "layers.layer_output", METRIC, positions=[7, 12], layers=[0, 1])
    assert result.settings["cells"] == BOTH
    by_hand = swept(model, clean, corrupt, "layers.layer_output", METRIC, [0, 1], [[7], [12]])
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=0)


@pytest.mark.trained
@pytest.mark.parametrize("value", [*TEXT, "vision.layers.layer_output", "vision.layers.attention_output"])
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_a_trained_checkpoint_gives_what_one_trace_per_cell_gives(name, value):
    model = model_of(name)
    scenes = shapes.pair(1, checkpoint=name, images=1)
    clean, corrupt = (dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes)
    words = [model.tokenizer(s.answer, add_special_tokens=False)["input_ids"][0] for s in scenes]
    metric, positions = logit_difference(*words), [5, 23, 40, 61]
    result = patch(model, clean, corrupt, value, metric, positions=positions)
    assert result.settings["cells"] != ALL
    by_hand = swept(model, clean, corrupt, value, metric, result.layers, result.positions)
    effects = (by_hand - result.corrupt) / (result.clean - result.corrupt)
    torch.testing.assert_close(result.effects, effects, atol=1e-5, rtol=0)


@pytest.mark.trained
def test_weights_that_are_not_there_yet_are_loaded():
    model = StandardizedTransformer(shapes.checkpoint("shapes-llava"))
    scenes = shapes.pair(1, checkpoint="shapes-llava", images=1)
    sides = [dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes]
    result = patch(model, *sides, "layers.layer_output", METRIC, positions=[5], layers=[0])
    assert result.settings["cells"] == BOTH


def test_a_metric_may_do_to_the_logits_what_it_likes():
    seen = []

    def strange(logits):
        seen.append(logits)
        return logits.mul_(2)[:, 9] - logits[:, 20]

    result = patch(model_of("llava"), *pair_of("llava"), "layers.layer_output", strange, layers=[0], positions=[6, 7])
    plain = patch(model_of("llava"), *pair_of("llava"), "layers.layer_output", METRIC, layers=[0], positions=[6, 7])
    torch.testing.assert_close(result.raw, 2 * plain.raw)
    assert not any(held.is_inference() for held in seen)


# What is not run


def flops(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize(("value", "least"), [("layers.layer_output", 6), ("vision.layers.layer_output", 1.2)])
def test_a_sweep_counts_far_fewer_operations_than_whole_forwards(value, least):
    model, (clean, corrupt) = model_of("llava"), pair_of("llava")
    result = patch(model, clean, corrupt, value, METRIC)
    with torch.no_grad():
        whole = flops(lambda: model._module(**corrupt)) * result.raw.numel()
    assert whole / flops(lambda: patch(model, clean, corrupt, value, METRIC)) > least


def measured(value, **options):
    """The result, and how many cells the metric was asked for."""
    counts = []

    def metric(logits):
        counts.append(len(logits))
        return METRIC(logits)

    result = patch(model_of("llava"), *pair_of("llava"), value, metric, **options)
    # The first two are the clean and the corrupt run.
    return result, sum(counts[2:])


def test_a_position_that_is_equal_in_both_runs_is_not_run():
    result, cells = measured("layers.layer_input", layers=[0, 1], positions=[0, 1, 2, 6, 7])
    assert cells == 4
    assert torch.equal(result.raw[:, :3], torch.full((2, 3), result.corrupt))
    assert (result.effects[:, 3:].abs() > 1e-4).all()


def test_behind_the_last_block_only_the_last_position_is_run():
    length = pair_of("llava")[0]["input_ids"].shape[1]
    result, cells = measured("layers.layer_output", layers=[2], positions=range(length))
    assert cells == 1
    assert result.effects[0, :-1].abs().max() == 0
    assert result.effects[0, -1] == pytest.approx(1)


def test_a_tower_block_that_nothing_reads_is_not_run():
    result, cells = measured("vision.layers.layer_input", positions=[1, 2])
    assert cells == 2 * model_of("llava").vision.feature_layers[0] + 2
    assert torch.equal(result.raw[2], torch.full((2,), result.corrupt))


# What is tried first


def test_an_engine_that_is_wrong_is_found_out_and_not_used(monkeypatch):
    text = engine.text.TextCells
    wrong = text._entry

    def shifted(self, layer, groups, cut):
        entry = wrong(self, layer, groups, cut)
        entry.hidden[:, -2] += 1e-2
        return entry

    monkeypatch.setattr(text, "_entry", shifted)
    model, (clean, corrupt) = StandardizedTransformer(build("llava").double()), pair_of("llava")
    result = patch(model, clean, corrupt, "layers.layer_output", METRIC, positions=[5, 9], layers=[0, 1])
    assert result.settings["cells"] == TRACED
    assert result.settings["because"] == "InputError: a trial did not agree with a whole forward"
    by_hand = swept(model, clean, corrupt, "layers.layer_output", METRIC, [0, 1], [[5], [9]])
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=0)


def trials(monkeypatch):
    """The blocks of every trial from now on."""
    seen, holds = [], engine.choice.holds
    monkeypatch.setattr(engine.choice, "holds", lambda *given: seen.append(given) or holds(*given))
    return seen


def test_a_trial_holds_for_inputs_of_the_same_shapes_and_no_others(monkeypatch):
    model, (clean, corrupt), seen = StandardizedTransformer(build("llava")), pair_of("llava"), trials(monkeypatch)
    clean, corrupt = ({**side, "pixel_values": side["pixel_values"].float()} for side in (clean, corrupt))

    def run(*sides):
        return patch(model, *sides, "layers.layer_output", METRIC, positions=[7, 12])

    first = run(clean, corrupt)
    second = run(corrupt, clean)
    assert len(seen) == 1
    assert first.settings["cells"] == second.settings["cells"] == BOTH
    by_hand = swept(model, corrupt, clean, "layers.layer_output", METRIC, second.layers, second.positions)
    torch.testing.assert_close(second.raw, by_hand, atol=1e-5, rtol=0)
    longer = [
        {
            **side,
            **{key: torch.nn.functional.pad(side[key], (0, 1), value=1) for key in ("input_ids", "attention_mask")},
        }
        for side in (clean, corrupt)
    ]
    run(*longer)
    assert len(seen) == 2


def test_a_trial_in_which_nothing_changes_says_nothing(monkeypatch):
    model, (clean, corrupt), seen = (
        StandardizedTransformer(build("llava").double()),
        pair_of("llava"),
        trials(monkeypatch),
    )

    def run(*positions):
        return patch(model, clean, corrupt, "layers.layer_output", METRIC, positions=positions)

    # Before the picture both runs are equal.
    assert run(0, 1).effects.abs().max() == 0
    assert run(1, 7, 12).settings["cells"] == BOTH
    assert len(seen) == 2
    run(1, 7)
    assert len(seen) == 2


def test_a_trial_does_not_hold_for_a_model_that_was_changed(monkeypatch):
    model, (clean, corrupt), seen = (
        StandardizedTransformer(build("llava").double()),
        pair_of("llava"),
        trials(monkeypatch),
    )

    def run():
        return patch(model, clean, corrupt, "layers.layer_output", METRIC, positions=[7, 12])

    run()
    handle = model.layers[1].mlp._module.register_forward_hook(lambda *_: None)
    run()
    handle.remove()
    assert len(seen) == 2
    with model.edit(inplace=True):
        model.layers[1].mlp.mlp_output[:] *= 0.5
    edited = run()
    assert len(seen) == 4
    assert edited.settings["cells"] == ALL
    by_hand = swept(model, clean, corrupt, "layers.layer_output", METRIC, edited.layers, edited.positions)
    torch.testing.assert_close(edited.raw, by_hand, atol=1e-5, rtol=0)


def test_a_hook_that_lives_on_a_module_is_part_of_every_cell():
    model = StandardizedTransformer(build("llava").double())
    handle = model.layers[1].mlp._module.register_forward_hook(lambda _module, _args, output: output * 0.5)
    clean, corrupt = pair_of("llava")
    result = patch(model, clean, corrupt, "layers.layer_output", METRIC, positions=[7, 12])
    by_hand = swept(model, clean, corrupt, "layers.layer_output", METRIC, result.layers, result.positions)
    handle.remove()
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=0)


def test_a_sweep_leaves_the_modules_as_they_were():
    model, (clean, corrupt) = model_of("llava"), pair_of("llava")
    before = [(dict(part._forward_hooks), vars(part).get("forward")) for part in model._module.modules()]
    for value in ("layers.mlp_output", "vision.layers.attention_output"):
        patch(model, clean, corrupt, value, METRIC, positions=[3, 7])
    assert before == [(dict(part._forward_hooks), vars(part).get("forward")) for part in model._module.modules()]


def test_whole_forwards_tell_the_copies_of_a_padded_tower_apart():
    model, (clean, corrupt) = model_of("gemma4"), pair_of("gemma4")
    layers, groups = [0, 1], ((1,), (3, 6), (11,))
    found = Site.find(model, "vision.layers.layer_output", layers)
    cells = TracedCells(model, Pair.align(model, clean, corrupt), found, groups)
    raw = torch.stack([METRIC(cells.logits([(layer, group) for group in groups])) for layer in layers])
    by_hand = swept(model, clean, corrupt, "vision.layers.layer_output", METRIC, layers, groups)
    torch.testing.assert_close(raw, by_hand, atol=1e-5, rtol=0)
