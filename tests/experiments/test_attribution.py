"""Attribution, against autograd on raw modules."""

import pytest
import torch
from raw import first
from test_truth import model_of

from belvedere import InputError, shapes
from belvedere.experiments import (
    AttributionResult,
    attribute,
    kl_divergence,
    logit_difference,
    patch,
    probability,
    rank,
)

METRIC = logit_difference(9, 20)
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
VALUES = [
    f"{stack}layers.{name}"
    for stack in ("", "vision.")
    for name in ("layer_input", "layer_output", "attention_output", "mlp_output")
]


@torch.enable_grad()
def raw_run(rig, value, layer, encoding, change=None):
    """A value on a raw module, the metric's gradient at it, and the metric; the value changed first, if asked."""
    path, point = rig.native(value, layer)
    held = []

    def kept(tensor):
        new = tensor.detach().clone() if change is None else change(tensor.detach().clone())
        held.append(new.requires_grad_())
        return held[0]

    def before(_, args, kwargs):
        if args:
            return (kept(args[0]), *args[1:]), kwargs
        name = next(iter(kwargs))
        return args, {**kwargs, name: kept(kwargs[name])}

    def after(_, args, output):
        new = kept(first(output))
        return (new, *output[1:]) if isinstance(output, tuple) else new

    module = rig.raw.get_submodule(path)
    if point == "input":
        handle = module.register_forward_pre_hook(before, with_kwargs=True, prepend=True)
    else:
        handle = module.register_forward_hook(after, prepend=True)
    score = METRIC(rig.raw(**encoding).logits[:, -1])[0]
    handle.remove()
    (gradient,) = torch.autograd.grad(score, held, allow_unused=True)
    width = held[0].shape[-1]
    gradient = torch.zeros_like(held[0]) if gradient is None else gradient
    return held[0].detach().reshape(-1, width), gradient.reshape(-1, width), float(score.detach())


@pytest.mark.parametrize("value", VALUES)
def test_an_estimate_is_the_gradient_times_the_difference(rig, value):
    groups = [[5], [6, 12], [20]]
    result = attribute(rig.model, rig.clean, rig.corrupt, value, METRIC, positions=groups)
    for row, layer in enumerate(result.layers):
        clean, _, _ = raw_run(rig, value, layer, rig.clean)
        corrupt, gradient, _ = raw_run(rig, value, layer, rig.corrupt)
        each = (gradient * (clean - corrupt)).sum(-1)
        expected = torch.stack([each[group].sum() for group in groups]).float()
        torch.testing.assert_close(result.raw[row], expected, **CLOSE)
    torch.testing.assert_close(result.effects, result.raw / (result.clean - result.corrupt))
    assert result.raw.abs().max() > 1e-4


@pytest.mark.parametrize("value", ["layers.layer_output", "vision.layers.layer_output"])
def test_steps_take_the_mean_gradient_along_the_way(rig, value):
    positions, steps = [5, 6, 12, 20], 3
    options = {"positions": positions, "layers": [0]}
    result = attribute(rig.model, rig.clean, rig.corrupt, value, METRIC, steps=steps, **options)
    clean, _, _ = raw_run(rig, value, 0, rig.clean)
    corrupt, _, _ = raw_run(rig, value, 0, rig.corrupt)
    slopes = []
    for step in range(steps):

        def change(tensor, share=(step + 0.5) / steps):
            rows = tensor.view(-1, tensor.shape[-1])
            rows[positions] = corrupt[positions] + share * (clean - corrupt)[positions]
            return rows.view(tensor.shape)

        slopes.append(raw_run(rig, value, 0, rig.corrupt, change)[1])
    expected = (torch.stack(slopes).mean(0) * (clean - corrupt)).sum(-1)[positions]
    torch.testing.assert_close(result.raw[0], expected.float(), **CLOSE)


def test_with_many_steps_a_block_s_estimates_sum_to_what_all_of_them_restore(llava_rig):
    value, everything = "layers.layer_input", range(39)
    given = (llava_rig.model, llava_rig.clean, llava_rig.corrupt, value, METRIC)
    result = attribute(*given, layers=[0], steps=20, positions=everything)
    assert float(result.effects.sum()) == pytest.approx(1, abs=0.02)


def test_the_last_block_s_linear_part_agrees_with_patching(rig):
    given = (rig.model, rig.clean, rig.corrupt, "layers.layer_output", METRIC)
    truth = patch(*given, positions=range(rig.clean["input_ids"].shape[1]))
    result = attribute(*given, positions=range(rig.clean["input_ids"].shape[1]), against=truth)
    ours, theirs = result.effects.flatten().double(), truth.effects.flatten().double()
    expected = torch.corrcoef(torch.stack([ours, theirs]))[0, 1]
    assert result.correlation == pytest.approx(float(expected), abs=1e-6)
    assert f"correlation with patching {result.correlation:.3f}" in repr(result)
    one = torch.corrcoef(torch.stack([result.effects[1], truth.effects[1]]))[0, 1]
    assert result.correlation_with(truth, layer=1) == pytest.approx(float(one), abs=1e-4)
    with pytest.raises(InputError, match="patch the same"):
        attribute(*given, positions=[5], against=truth)


def test_the_block_that_llava_does_not_read_has_no_gradient(llava_rig):
    given = (llava_rig.model, llava_rig.clean, llava_rig.corrupt, "vision.layers.layer_output", METRIC)
    assert attribute(*given).effects[-1].abs().max() == 0


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize("value", ["layers.layer_output", "vision.layers.layer_output"])
def test_a_model_whose_weights_are_frozen_has_gradients_all_the_same(llava_rig, value, steps):
    given = (llava_rig.model, llava_rig.clean, llava_rig.corrupt, value, METRIC)
    last = len(llava_rig.model.vision.layers) - 1  # which nothing reads: no gradient at all reaches the metric
    before = attribute(*given, positions=[5, 6], steps=steps)
    parameters = list(llava_rig.model._module.parameters())
    try:
        for held in parameters:
            held.requires_grad_(False)
        frozen = attribute(*given, positions=[5, 6], steps=steps)
        alone = attribute(*given, positions=[5, 6], steps=steps, layers=[last])
    finally:
        for held in parameters:
            held.requires_grad_(True)
    assert torch.equal(frozen.effects, before.effects)
    assert torch.equal(alone.effects[0], before.effects[last])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "at one point at least"),
        ({"metric": rank(9)}, "has no gradient"),
        ({"metric": lambda logits: logits[:, 0] * 0}, "nothing to restore"),
        ({"layers": [9]}, "there is no block 9"),
    ],
)
def test_what_cannot_be_attributed_is_refused(llava_rig, options, said):
    options = {"metric": METRIC, **options}
    with pytest.raises(InputError) as caught:
        attribute(llava_rig.model, llava_rig.clean, llava_rig.corrupt, "layers.layer_output", **options)
    assert said in str(caught.value)


def test_the_model_is_clean_afterwards_and_the_result_is_read_back(rig, tmp_path):
    given = (rig.model, rig.clean, rig.corrupt, "layers.layer_output", kl_divergence())
    result = attribute(*given, positions=[[5, 6], 9])
    assert not result.raw.requires_grad
    assert all(held.grad is None for held in rig.model._module.parameters())
    with rig.model.trace(**rig.clean):
        logits = rig.model.logits.save()
    assert torch.equal(logits, rig.raw(**rig.clean).logits)
    result.save(tmp_path / "estimate.safetensors")
    back = AttributionResult.load(tmp_path / "estimate.safetensors")
    assert repr(back) == repr(result)
    assert back.positions == ((5, 6), (9,))
    assert back.settings == result.settings
    assert "to first order" in back.plot().axes[1].get_ylabel().replace("\n", " ")


@pytest.mark.trained
@pytest.mark.parametrize(("name", "least"), [("shapes-llava", 0.3), ("shapes-qwen3_5", 0.3)])
def test_it_agrees_with_patching_on_what_a_model_has_learned(name, least):
    model = model_of(name)
    clean, corrupt = shapes.pair(2, checkpoint=name, images=1)
    answer, wrong = model.tokenizer.convert_tokens_to_ids([clean.answer, corrupt.answer])
    shown, hidden = ({"text": scene.prompt, "images": scene.images} for scene in (clean, corrupt))
    given = (model, shown, hidden, "layers.layer_input")
    truth = patch(*given, logit_difference(answer, wrong), progress=False)
    plain = attribute(*given, logit_difference(answer, wrong), against=truth)
    along = attribute(*given, logit_difference(answer, wrong), against=truth, steps=8)
    assert along.correlation > plain.correlation or plain.correlation > 0.9
    assert along.correlation > least
    assert attribute(*given, probability(answer)).effects.shape == truth.effects.shape
