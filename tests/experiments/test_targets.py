"""What else is patched beside streams: heads, image features, what a state is made of, and positions by name or box."""

import nnsight
import pytest
import torch
from naive import hosted
from test_engine import METRIC, model_of, pair_of

from belvedere import InputError, Unavailable, shapes
from belvedere.experiments import Inside, PatchResult, ablate, attribute, logit_difference, patch, stand_in, token_boxes
from belvedere.testing import ROWS, build

BOTH, BLOCK, TOWER, ALL, TRACED = (
    "from the patched block and position",
    "from the patched block",
    "from the patched tower block and the first image token",
    "whole forwards",
    "from the first changed block, in a trace",
)
HEADS = "layers.attention_head_outputs"
FEATURES = "vision.image_features"
FAMILIES = ("qwen2_5_vl", "llava_next", "qwen3_vl", "gemma3", "paligemma", "qwen3_5", "kimi_k25", "gemma4", "idefics2")


@torch.no_grad()
def swept(model, clean, corrupt, value, metric, layers, columns):
    """``[layer, column]``: the metric with some heads at some positions from the clean run, one trace per cell."""
    raw = torch.empty(len(layers), len(columns))
    last = int(clean.get("attention_mask", torch.ones_like(clean["input_ids"]))[0].nonzero().max())
    for row, layer in enumerate(layers):
        host, name = hosted(model, value, layer)
        with model.trace(**clean):
            source = getattr(host, name).clone().save()
        for column, (positions, heads) in enumerate(columns):
            with model.trace(**corrupt):
                written = getattr(host, name).clone()
                pictures, length = written.shape[0], written.shape[2]
                for position in positions:
                    for head in heads:
                        picture, own = divmod(position, length)
                        assert picture < pictures
                        written[picture, head, own] = source[picture, head, own]
                setattr(host, name, written)
                logits = nnsight.save(model.logits[:, last].float())
            raw[row, column] = metric(logits)
    return raw


def check(name, value, way=None, positions=None, heads=None, **options):
    model, (clean, corrupt) = model_of(name), pair_of(name)
    options = {"batch_cells": 3, **options}
    result = patch(model, clean, corrupt, value, METRIC, positions=positions, heads=heads, **options)
    if way is not None:
        assert result.settings["cells"].startswith(way), result.settings
    columns = list(zip(result.positions, result.heads, strict=True))
    by_hand = swept(model, clean, corrupt, value, METRIC, result.layers, columns)
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=0)
    assert (by_hand - result.corrupt).abs().max() > 1e-5
    return result


# Heads


@pytest.mark.parametrize("name", FAMILIES)
def test_a_head_of_the_text_equals_one_trace_per_cell(name):
    result = check(name, HEADS, BOTH)
    length = ROWS[name].solo(0)["input_ids"].shape[1]
    count = model_of(name).num_heads
    assert result.heads == tuple((head,) for head in range(count))
    assert result.positions == (tuple(range(length)),) * count
    assert result.names == tuple(f"head {head}" for head in range(count))


@pytest.mark.parametrize("name", FAMILIES)
def test_heads_at_positions_equal_one_trace_per_cell(name):
    length = ROWS[name].solo(0)["input_ids"].shape[1]
    result = check(name, HEADS, BOTH, positions=[6, [4, length // 2], -1], heads=[0, [1, 3]])
    assert result.names[:3] == ("head 0 at 6", "head 1, 3 at 6", "head 0 at 4 and 1 more")
    assert result.heads == ((0,), (1, 3)) * 3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_head_of_the_tower_equals_one_trace_per_cell(name):
    check(name, f"vision.{HEADS}", "from the patched tower block", batch_cells=2, heads=[-1, [0, 1]])
    check(name, f"vision.{HEADS}", "from the patched tower block", batch_cells=2, heads=[1], positions=[1, [3, 6]])


@pytest.mark.trained
@pytest.mark.parametrize("value", [HEADS, f"vision.{HEADS}"])
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_heads_of_a_trained_checkpoint_equal_one_trace_per_cell(name, value):
    model = model_of(name)
    scenes = shapes.pair(1, checkpoint=name, images=1)
    clean, corrupt = (dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes)
    words = [model.tokenizer(s.answer, add_special_tokens=False)["input_ids"][0] for s in scenes]
    metric = logit_difference(*words)
    for positions in (None, [23, [40, 61]]):
        result = patch(model, clean, corrupt, value, metric, positions=positions, heads=[0, [1, 2]])
        assert result.settings["cells"] == (TOWER if value.startswith("vision.") else BOTH), result.settings
        columns = list(zip(result.positions, result.heads, strict=True))
        by_hand = swept(model, clean, corrupt, value, metric, result.layers, columns)
        effects = (by_hand - result.corrupt) / (result.clean - result.corrupt)
        torch.testing.assert_close(result.effects, effects, atol=1e-5, rtol=0)


QUERIES = ("attention_queries", "attention_keys", "attention_values")


@pytest.mark.parametrize("name", ["llava", "qwen3_5", "qwen2_5_vl", "gemma3", "kimi_k25"])
@pytest.mark.parametrize("value", QUERIES)
def test_queries_keys_and_values_are_patched_by_head(name, value):
    blocks = model_of(name).layers
    layers = [number for number, block in enumerate(blocks) if "self_attn" in vars(block)]
    check(name, f"layers.{value}", TRACED, heads=[0, 1], positions=[6, [4, 9]], layers=layers)


@pytest.mark.parametrize("value", [*QUERIES, "betas", "decays"])
def test_what_a_state_is_made_of_is_patched_by_head_and_position(value):
    model = model_of("qwen3_5")
    layers = [number for number, block in enumerate(model.layers) if "linear_attn" in vars(block)]
    result = check("qwen3_5", f"layers.{value}", TRACED, heads=[0, 1], positions=[6, [4, 12]], layers=layers)
    assert result.layers == tuple(layers)


def test_what_a_head_reads_out_of_a_state_is_patched_from_its_position():
    result = check("qwen3_5", "layers.state_head_outputs", BOTH, heads=[0, [1, 3]], positions=[6, [4, 9], "image"])
    heads = patch(model_of("qwen3_5"), *pair_of("qwen3_5"), HEADS, METRIC, positions=[6])
    assert not set(result.layers) & set(heads.layers)


def test_a_block_with_fewer_keys_is_left_out_or_told():
    result = check("qwen3_5", HEADS, BOTH, heads=[0])
    assert len(result.layers) < model_of("qwen3_5").num_layers


# A state


@torch.no_grad()
def states_swept(raw, clean, corrupt, metric, turn, position, groups, monkeypatch):
    """The metric with the state of one mixer, the ``turn``-th to run, exchanged between two halves of its kernel."""
    from transformers.models.qwen3_5 import modeling_qwen3_5

    kernel, kept = modeling_qwen3_5.torch_chunk_gated_delta_rule, []

    def half(args, kwargs, part, state):
        rest = {**kwargs, "g": kwargs["g"][:, part], "beta": kwargs["beta"][:, part]}
        return kernel(*(one[:, part] for one in args), **{**rest, "initial_state": state, "output_final_state": True})

    def run(encoding, heads):
        turns = iter(range(100))

        def in_halves(*args, **kwargs):
            if next(turns) != turn:
                return kernel(*args, **kwargs)
            before, state = half(args, kwargs, slice(0, position), None)
            if heads is None:
                kept.append(state.clone())
            else:
                state[:, list(heads)] = kept[0][:, list(heads)]
            behind, last = half(args, kwargs, slice(position, None), state)
            return torch.cat([before, behind], 1), last

        with monkeypatch.context() as patched:
            patched.setattr(modeling_qwen3_5, "torch_chunk_gated_delta_rule", in_halves)
            logits = raw(**encoding).logits[:, -1].float()
        assert next(turns) > turn
        return logits

    run(clean, None)
    return torch.stack([metric(run(corrupt, heads)) for heads in groups], 1)[0]


@pytest.mark.parametrize("position", [None, 9, -1])
def test_a_state_is_exchanged_between_two_positions(monkeypatch, position):
    model, (clean, corrupt) = model_of("qwen3_5"), pair_of("qwen3_5")
    heads = [0, 1, [0, 1], [3, 2], -1]
    positions = None if position is None else [position]
    result = patch(model, clean, corrupt, "layers.state_input", METRIC, heads=heads, positions=positions, batch_cells=4)
    (at,) = set(result.positions)
    tokens = (clean["input_ids"][0] == model.placeholder("image")).nonzero().flatten()
    wanted = {None: int(tokens[-1]) + 1, 9: 9, -1: clean["input_ids"].shape[1] - 1}
    assert at == (wanted[position],)
    assert result.names[1] == f"head 1 at {at[0]}"
    raw = build("qwen3_5").double()
    for row in range(len(result.layers)):
        by_hand = states_swept(raw, clean, corrupt, METRIC, row, at[0], result.heads, monkeypatch)
        torch.testing.assert_close(result.raw[row], by_hand, atol=1e-5, rtol=1e-4)
    assert (result.raw - result.corrupt).abs().max() > 1e-4


@pytest.mark.trained
def test_a_state_of_a_trained_checkpoint_is_exchanged(monkeypatch):
    from transformers import AutoModelForImageTextToText

    name = "shapes-qwen3_5"
    model = model_of(name)
    scenes = shapes.pair(1, checkpoint=name, images=1)
    clean, corrupt = (dict(model.processor(text=s.prompt, images=s.images, return_tensors="pt")) for s in scenes)
    metric = scenes_of(name)[2]
    raw = AutoModelForImageTextToText.from_pretrained(shapes.checkpoint(name)).eval()
    result = patch(model, clean, corrupt, "layers.state_input", metric, positions=["last"], heads=[0, 2, range(4)])
    for row in range(len(result.layers)):
        by_hand = states_swept(raw, clean, corrupt, metric, row, result.positions[0][0], result.heads, monkeypatch)
        effects = (by_hand - result.corrupt) / (result.clean - result.corrupt)
        torch.testing.assert_close(result.effects[row], effects, atol=1e-5, rtol=0)
    assert result.effects[1, 2] > 0.3


def test_a_state_is_one_position_s_and_patch_s_alone():
    model, pair = model_of("qwen3_5"), pair_of("qwen3_5")
    with pytest.raises(InputError, match=r"is the state that one position finds; pass numbers, or 'last'"):
        patch(model, *pair, "layers.state_input", METRIC, positions="image")
    with pytest.raises(InputError, match=r"only the next step of a generation reads it; patch layers.state_input"):
        patch(model, *pair, "layers.state_output", METRIC)
    with pytest.raises(InputError, match="`patch` alone reaches it, and what it is made of is at each position"):
        attribute(model, *pair, "layers.state_input", METRIC)
    with pytest.raises(Unavailable, match="keeps no state"):
        patch(model_of("llava"), *pair_of("llava"), "layers.state_input", METRIC)
    start = patch(model, *pair, "layers.state_input", METRIC, positions=[0])
    assert start.effects.abs().max() == 0


# Image features


#: Whose blocks get something of the features beside the stream, so that the stream alone does not carry them.
BESIDE = ("gemma4",)


@torch.no_grad()
def features_swept(model, clean, corrupt, metric, groups):
    tokens = (clean["input_ids"][0] == model.placeholder("image")).nonzero().flatten().tolist()
    with model.trace(**clean):
        source = model.vision.image_features.clone().save()
    scores = []
    for group in groups:
        with model.trace(**corrupt):
            written = model.vision.image_features.clone()
            for position in group:
                written[tokens.index(position)] = source[tokens.index(position)]
            model.vision.image_features = written
            logits = model.logits[:, -1].float().save()
        scores.append(metric(logits))
    return torch.stack(scores, 1)


@pytest.mark.parametrize("name", [*FAMILIES, "llama4"])
def test_a_feature_equals_one_trace_per_cell(name):
    model, (clean, corrupt) = model_of(name), pair_of(name)
    tokens = (clean["input_ids"][0] == model.placeholder("image")).nonzero().flatten().tolist()
    positions = [tokens[0], tokens[-1], tokens[1:3], "image"]
    result = patch(model, clean, corrupt, FEATURES, METRIC, positions=positions, batch_cells=3)
    assert result.settings["cells"] == (ALL if name in BESIDE else BOTH), result.settings
    by_hand = features_swept(model, clean, corrupt, METRIC, result.positions)
    # A delta rule is in single precision whatever the model's type.
    torch.testing.assert_close(result.raw, by_hand, atol=1e-5, rtol=1e-4 if name == "qwen3_5" else 0)
    assert (by_hand - result.corrupt).abs().max() > 1e-4


def test_features_are_swept_over_the_image_tokens():
    model, (clean, corrupt) = model_of("llava"), pair_of("llava")
    result = patch(model, clean, corrupt, FEATURES, METRIC)
    tokens = (clean["input_ids"][0] == model.placeholder("image")).nonzero().flatten().tolist()
    assert result.positions == tuple((place,) for place in tokens)
    assert result.layers == (-1,)
    assert "block" not in repr(result)
    assert "at image features, position" in repr(result)
    assert result.lines()[0][0] == "image features"
    axes, _ = result.plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["image features"]
    stream = patch(model, clean, corrupt, "layers.layer_input", METRIC, layers=[0])
    torch.testing.assert_close(result.raw, stream.raw)


def test_a_model_that_writes_over_no_placeholders_says_so():
    with pytest.raises(InputError, match="writes nothing over placeholders, so a feature has no position"):
        patch(model_of("mllama"), *pair_of("mllama"), FEATURES, METRIC)
    with pytest.raises(Unavailable):
        patch(model_of("llama"), *pair_of("llama"), FEATURES, METRIC)


# By name, by box


def scenes_of(name, seed=1):
    scenes = shapes.pair(seed, checkpoint=name, images=1)
    shown = [{"text": scene.prompt, "images": scene.images} for scene in scenes]
    tokenizer = model_of(name).tokenizer
    words = [tokenizer(scene.answer, add_special_tokens=False)["input_ids"][0] for scene in scenes]
    return scenes[0], shown, logit_difference(*words)


@pytest.mark.trained
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_an_object_is_patched_by_its_box(name):
    model, (scene, (clean, corrupt), metric) = model_of(name), scenes_of(name)
    boxes = token_boxes(model, clean, scene.image.size)
    inside, outside = Inside(scene.changed), Inside(scene.changed, outside=True)
    value = "layers.layer_input"
    result = patch(model, clean, corrupt, value, metric, positions=[inside, outside, "image", "last", 4], layers=[0])
    assert result.names == (str(inside), str(outside), "image", "last", "4")
    image = result.positions[2]
    assert len(image) == len(boxes)
    assert set(result.positions[0]) | set(result.positions[1]) == set(image)
    assert not set(result.positions[0]) & set(result.positions[1])
    assert result.effects[0, 0] > 0.9
    alone = patch(model, clean, corrupt, value, metric, positions=inside, layers=[0])
    assert alone.positions == result.positions[:1]
    assert alone.names == result.names[:1]
    assert repr(alone).endswith(f"at block 0, {inside})")
    assert alone.effects[0, 0] == pytest.approx(float(result.effects[0, 0]), abs=1e-4)
    features = patch(model, clean, corrupt, FEATURES, metric, positions=inside)
    assert features.positions == alone.positions
    tower = patch(model, clean, corrupt, "vision.layers.layer_input", metric, positions=[inside, "patches"], layers=[0])
    assert len(tower.positions[0]) < len(tower.positions[1])
    assert tower.effects[0, 1] > 0.9


@pytest.mark.trained
def test_attribution_and_ablation_take_the_same_positions_and_heads():
    model, (scene, (clean, corrupt), metric) = model_of("shapes-llava"), scenes_of("shapes-llava")
    places = [Inside(scene.changed), "last"]
    found = patch(model, clean, corrupt, HEADS, metric, positions=places, layers=[1])
    estimate = attribute(model, clean, corrupt, HEADS, metric, positions=places, layers=[1], against=found)
    gone = ablate(model, clean, HEADS, metric, positions=places, layers=[1])
    labels = [(one.positions, one.heads, one.names) for one in (found, estimate, gone)]
    assert labels[0] == labels[1] == labels[2]
    assert found.names[0] == f"head 0 at {places[0]}"
    assert estimate.correlation > 0.9


def test_a_box_of_an_encoding_needs_the_picture_s_size():
    model, (clean, corrupt) = model_of("llava"), pair_of("llava")
    with pytest.raises(InputError, match="size"):
        patch(model, clean, corrupt, "layers.layer_input", METRIC, positions=Inside((0, 0, 8, 8)))


# Attribution and ablation of other targets


@pytest.mark.parametrize("value", [HEADS, f"vision.{HEADS}", FEATURES, "layers.attention_values"])
def test_attribution_is_the_slope_of_patching(value):
    model, (clean, corrupt) = model_of("llava"), pair_of("llava")
    near = dict(corrupt)
    near["pixel_values"] = corrupt["pixel_values"] + 1e-2 * (clean["pixel_values"] - corrupt["pixel_values"])
    options = {"positions": [6, [7, 8]]} if value != FEATURES else {"positions": [[6, 7], 8]}
    for steps in (None, 2):
        estimate = attribute(model, near, corrupt, value, METRIC, steps=steps, **options)
        found = patch(model, near, corrupt, value, METRIC, **options)
        assert estimate.heads == found.heads
        torch.testing.assert_close(estimate.effects, found.effects, atol=2e-2, rtol=5e-2)


def test_ablated_heads_read_nothing():
    model, (shown, _) = model_of("llava"), pair_of("llava")
    gone = ablate(model, shown, HEADS, METRIC, heads=[0, [1, 2]], positions=[[6, 9], -1], batch_cells=3)
    assert gone.names[1] == "head 1, 2 at 6 and 1 more"
    for row, layer in enumerate(gone.layers):
        for column, (positions, heads) in enumerate(zip(gone.positions, gone.heads, strict=True)):
            with model.trace(**shown):
                for head in heads:
                    model.layers[layer].self_attn.attention_head_outputs[:, head, list(positions)] = 0
                logits = model.logits[:, -1].float().save()
            assert gone.raw[row, column] == pytest.approx(float(METRIC(logits)), abs=1e-5)


def test_a_head_is_replaced_by_its_own_mean():
    model, (shown, other) = model_of("llava"), pair_of("llava")
    mean = stand_in(model, HEADS, by="mean", references=[other], layers=[1])
    tokens = (other["input_ids"][0] == model.placeholder("image")).nonzero().flatten()
    with model.trace(**other):
        held = model.layers[1].self_attn.attention_head_outputs[0][:, tokens].mean(1).save()
    torch.testing.assert_close(mean.vectors(1, [3]).double(), held.double())
    gone = ablate(model, shown, HEADS, METRIC, by=mean, heads=[2], positions=[[6, 7]], layers=[1])
    with model.trace(**shown):
        model.layers[1].self_attn.attention_head_outputs[:, 2, 6:8] = held[2].to(torch.float64)
        logits = model.logits[:, -1].float().save()
    assert gone.raw[0, 0] == pytest.approx(float(METRIC(logits)), abs=1e-5)


def test_ablated_features_are_gone():
    model, (shown, other) = model_of("qwen2_5_vl"), pair_of("qwen2_5_vl")
    gone = ablate(model, shown, FEATURES, METRIC, positions="image")
    with model.trace(**shown):
        model.vision.image_features = model.vision.image_features * 0
        logits = model.logits[:, -1].float().save()
    assert gone.raw[0, 0] == pytest.approx(float(METRIC(logits)), abs=1e-5)
    drawn = ablate(model, shown, FEATURES, METRIC, by="resample", references=[other], batch_cells=2)
    assert drawn.effects.abs().max() > 0


# Both directions


@pytest.mark.parametrize("value", ["layers.layer_output", HEADS, FEATURES])
def test_swapped_inputs_patch_the_other_way(value):
    model, (clean, corrupt) = model_of("llava"), pair_of("llava")
    there = patch(model, clean, corrupt, value, METRIC, positions=[6, "all" if value != FEATURES else "image"])
    back = patch(model, corrupt, clean, value, METRIC, positions=[6, "all" if value != FEATURES else "image"])
    assert (there.clean, there.corrupt) == pytest.approx((back.corrupt, back.clean), abs=1e-5)
    layer = there.layers[0]
    columns = list(zip(back.positions, back.heads or ((),) * len(back.positions), strict=True))
    if value == HEADS:
        by_hand = swept(model, corrupt, clean, value, METRIC, back.layers, columns)
        torch.testing.assert_close(back.raw, by_hand, atol=1e-5, rtol=0)
        return
    # All of it at once is the other run, so that 1 is what was the corrupt run before.
    whole = back.raw[back.layers.index(layer), 1]
    assert float(whole) == pytest.approx(there.corrupt, abs=1e-4)
    assert back.effects[0, 1] == pytest.approx(1, abs=1e-4)
    assert there.effects[0, 1] == pytest.approx(1, abs=1e-4)


# Results


def test_a_result_of_heads_says_which_head_each_column_is(tmp_path):
    result = check("llava", HEADS, BOTH, positions=[6, 9], heads=[3, 1])
    best = result.largest()
    assert best.heads == result.heads[best.index]
    assert f"at block {best.layer}, head {best.heads[0]} at {best.positions[0]})" in repr(result)
    assert "effects [layer 3, head 4]" in repr(result)
    assert result.lines()[0][2].startswith("head ")
    axes, _ = result.plot().axes
    assert [label.get_text() for label in axes.get_xticklabels()] == list(result.names)
    result.save(tmp_path / "heads.safetensors")
    again = PatchResult.load(tmp_path / "heads.safetensors")
    assert (again.heads, again.names, again.positions) == (result.heads, result.names, result.positions)
    one = again.of_head(1)
    assert one.positions == ((6,), (9,))
    assert torch.equal(one.raw, result.raw[:, [1, 3]])
    with pytest.raises(InputError, match="no column is of head 0 alone"):
        result.of_head(0)


def test_a_sweep_of_heads_goes_on_where_it_was(tmp_path):
    model, pair, file = model_of("llava"), pair_of("llava"), tmp_path / "sweep.safetensors"
    result = patch(model, *pair, HEADS, METRIC, positions=[6], file=file)
    again = patch(model, *pair, HEADS, METRIC, positions=[6], file=file)
    assert torch.equal(result.raw, again.raw)
    with pytest.raises(InputError, match="its heads differ"):
        patch(model, *pair, HEADS, METRIC, positions=[6], heads=[3, 2, 1, 0], file=file)


# Refusals


@pytest.mark.parametrize(
    ("value", "options", "said"),
    [
        (HEADS, {"heads": [4]}, "there is no head 4; layers.attention_head_outputs has 4, 0 to 3"),
        (HEADS, {"heads": []}, "`heads` is empty"),
        (HEADS, {"heads": [[1], []]}, "`heads` is empty or has an empty group"),
        ("layers.layer_output", {"heads": [0]}, "has no heads; leave `heads` out"),
        (FEATURES, {"layers": [0]}, "is of no block; leave `layers` out"),
        (FEATURES, {"positions": [0]}, "position 0 is no image token"),
        ("layers.layer_output", {"positions": ["pictures"]}, "'pictures' names no positions"),
    ],
)
def test_what_there_is_not_is_refused(value, options, said):
    with pytest.raises(InputError, match=said):
        patch(model_of("llava"), *pair_of("llava"), value, METRIC, **options)
