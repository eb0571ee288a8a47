"""An ablated run, against raw hooks on the native modules."""

import random

import pytest
import torch
from conftest import _built
from raw import captured, hooked
from test_truth import model_of

from belvedere import InputError, shapes
from belvedere.experiments import AblationResult, ablate, kl_divergence, logit_difference, stand_in

METRIC = logit_difference(9, 20)
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
VALUES = [f"{stack}layers.{name}" for stack in ("", "vision.") for name in ("layer_output", "mlp_output")]


def written(rig, value, layer, positions, vectors):
    def edit(tensor):
        rows = tensor.reshape(-1, tensor.shape[-1]).clone()
        rows[list(positions)] = vectors
        return rows.view(tensor.shape)

    return METRIC(hooked(rig.raw, rig.native(value, layer), rig.clean, edit)[None])[0].float()


def rows_of(rig, value, layer, encoding, positions):
    held, _ = captured(rig.raw, rig.native(value, layer), encoding)
    return held.reshape(-1, held.shape[-1])[list(positions)]


def usual(rig, value):
    if not value.startswith("vision."):
        return (rig.clean["input_ids"][0] == 5).nonzero().flatten().tolist()
    return [*range(1, 17), *range(18, 34)] if rig.name == "llava" else list(range(40))


@pytest.mark.parametrize("value", VALUES)
def test_zero_is_zero(rig, value):
    groups = [[5], [6, 12], [20]]
    result = ablate(rig.model, rig.clean, value, METRIC, positions=groups, batch_cells=2)
    for row, layer in enumerate(result.layers):
        expected = torch.stack([written(rig, value, layer, group, 0) for group in groups])
        torch.testing.assert_close(result.raw[row], expected, **CLOSE)
    assert result.effects.abs().max() > 1e-4
    torch.testing.assert_close(result.effects, result.raw - result.plain)


@pytest.mark.parametrize("value", VALUES)
def test_the_mean_is_over_the_image_tokens_or_patches_of_the_references(rig, value):
    result = ablate(
        rig.model,
        rig.clean,
        value,
        METRIC,
        by="mean",
        references=[rig.clean, rig.corrupt],
        positions=[5, 6],
        layers=[1],
    )
    places = usual(rig, value)
    mean = torch.cat([rows_of(rig, value, 1, given, places) for given in (rig.clean, rig.corrupt)]).mean(0)
    expected = torch.stack([written(rig, value, 1, [position], mean) for position in (5, 6)])
    torch.testing.assert_close(result.raw[0], expected, **CLOSE)


def test_a_resampled_vector_is_one_of_the_references_and_a_seed_repeats_it(rig):
    value = "layers.layer_output"
    pool = rows_of(rig, value, 1, rig.corrupt, usual(rig, value))
    new = stand_in(rig.model, value, by="resample", references=[rig.corrupt], layers=[1], seed=3)
    assert torch.equal(new.held[1], pool)
    drawn = new.vectors(1, [5, 6, 7])
    assert all((pool == one).all(-1).any() for one in drawn)
    assert torch.equal(drawn[1:], new.vectors(1, [6, 7]))
    options = {"by": "resample", "references": [rig.corrupt], "layers": [1], "positions": [5, 6, 7]}
    one, again, other = (
        ablate(rig.model, rig.clean, value, METRIC, seed=seed, batch_cells=cells, **options)
        for seed, cells in ((3, 1), (3, 3), (4, 3))
    )
    torch.testing.assert_close(one.raw, again.raw, **CLOSE)
    assert not torch.allclose(one.raw, other.raw)
    expected = torch.stack([written(rig, value, 1, [5 + n], drawn[n]) for n in range(3)])
    torch.testing.assert_close(one.raw[0], expected, **CLOSE)


def test_a_pool_is_drawn_where_the_references_have_more(llava_rig, monkeypatch):
    monkeypatch.setattr("belvedere.experiments.ablation.POOL", 5)
    new = stand_in(
        llava_rig.model,
        "layers.layer_output",
        by="resample",
        references=[llava_rig.clean, llava_rig.corrupt],
        layers=[0],
        seed=1,
    )
    places, draw = usual(llava_rig, "layers."), random.Random(1)
    expected = [
        rows_of(llava_rig, "layers.layer_output", 0, given, sorted(draw.sample(places, 3)))
        for given in (llava_rig.clean, llava_rig.corrupt)
    ]
    assert torch.equal(new.held[0], torch.cat(expected))


def test_a_stand_in_is_put_at_several_blocks_of_one_s_own_trace(rig):
    value = "layers.mlp_output"
    mean = stand_in(rig.model, value, references=[rig.corrupt], at="text", layers=[0, 2])
    with rig.model.trace(**rig.clean):
        for layer in (0, 2):
            mean.put(layer, [3, 9])
        logits = rig.model.logits[0, -1].save()
    handles = []
    for layer in (0, 2):
        path, _ = rig.native(value, layer)
        shown = [*usual(rig, value)]
        rest = [place for place in range(rig.clean["input_ids"].shape[1]) if place not in shown]
        vector = rows_of(rig, value, layer, rig.corrupt, rest).mean(0)

        def hook(_, args, output, vector=vector):
            output = output.clone()
            output[0, [3, 9]] = vector
            return output

        handles.append((path, hook))
    handles = [rig.raw.get_submodule(path).register_forward_hook(hook) for path, hook in handles]
    expected = rig.raw(**rig.clean).logits[0, -1]
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(logits, expected)
    with pytest.raises(InputError, match="nothing was kept of block 1"):
        mean.vectors(1, [3])
    with pytest.raises(InputError, match=r"made of layers\.mlp_output and cannot stand for layers\.layer_output"):
        ablate(rig.model, rig.clean, "layers.layer_output", METRIC, by=mean)


@pytest.mark.parametrize("name", ["lfm2_vl", "gemma4", "internvl_tiles", "mllama"])
def test_copies_of_a_padded_or_tiled_tower_are_told_apart(name):
    checkpoint = _built[name, "sdpa"]
    encoding = checkpoint.row.solo(0)
    options = {"positions": [1, 2, 4], "layers": [0]}
    given = (checkpoint.model, encoding, "vision.layers.mlp_output", METRIC)
    one, three = (ablate(*given, batch_cells=cells, **options) for cells in (1, 3))
    torch.testing.assert_close(three.raw, one.raw, atol=1e-5, rtol=1e-3)
    assert one.effects.abs().max() > 1e-6


def test_a_text_model_is_ablated_at_every_token():
    checkpoint = _built["llama", "sdpa"]
    ids = {"input_ids": checkpoint.inputs["input_ids"][1:]}
    result = ablate(checkpoint.model, ids, "layers.attention_output", METRIC, by="mean", references=[ids], layers=[0])
    assert result.effects.shape == (1, ids["input_ids"].shape[1])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "noise"}, "by='noise' is no way to ablate; known: zero, mean, resample"),
        ({"by": "mean"}, "pass some as `references=[...]`"),
        ({"positions": [99]}, "there is no position 99"),
        ({"layers": [9]}, "there is no block 9"),
        ({"batch_cells": 0}, "at least one cell"),
        ({"by": "mean", "references": [{"input_ids": torch.tensor([[1, 2]])}], "at": "image"}, "shows no picture"),
    ],
)
def test_what_cannot_be_ablated_is_refused(rig, options, said):
    with pytest.raises(InputError) as caught:
        ablate(rig.model, rig.clean, "layers.layer_output", METRIC, **options)
    assert said in str(caught.value)


def test_the_model_is_clean_afterwards_and_the_result_is_read_back(rig, tmp_path):
    result = ablate(rig.model, rig.clean, "layers.layer_output", kl_divergence(), positions=[5, 6])
    with rig.model.trace(**rig.clean):
        logits = rig.model.logits.save()
    assert torch.equal(logits, rig.raw(**rig.clean).logits)
    assert result.plain == 0
    result.save(tmp_path / "gone.safetensors")
    back = AblationResult.load(tmp_path / "gone.safetensors")
    assert repr(back) == repr(result)
    assert "by zero, untouched 0" in repr(result)
    assert back.largest().effect == pytest.approx(float(result.effects.flatten()[result.effects.abs().argmax()]))
    assert back.table().row_count == len(result.layers)
    assert len(back.plot().axes) == 2


@pytest.mark.trained
@pytest.mark.parametrize("by", ["mean", "resample"])
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_without_the_object_s_tokens_the_answer_is_gone(name, by):
    model, drops = model_of(name), []
    others = [shapes.sample(seed, checkpoint=name, images=1) for seed in range(50, 54)]
    references = [{"text": scene.prompt, "images": scene.images} for scene in others]
    new = stand_in(model, "layers.layer_input", by=by, references=references, layers=[0])
    for seed in range(4):
        scene, other = shapes.pair(seed, checkpoint=name, images=1)
        answer, wrong = model.tokenizer.convert_tokens_to_ids([scene.answer, other.answer])
        encoding = model.processor(text=scene.prompt, images=scene.images, return_tensors="pt")
        places = (encoding["input_ids"][0] == model.processor.image_token_id).nonzero().flatten()
        under = places[scene.tokens_under(scene.changed)].tolist()
        rest = sorted({*places.tolist()} - {*under})
        away = rest[:: max(1, len(rest) // len(under))][: len(under)]
        metric = logit_difference(answer, wrong)
        result = ablate(model, encoding, "layers.layer_input", metric, by=new, layers=[0], positions=[under, away])
        drops.append(result.effects[0] / result.plain)
    on, off = torch.stack(drops).mean(0).tolist()
    assert on < -0.5
    assert abs(off) < 0.3
