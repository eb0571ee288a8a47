"""A mixture that calls every expert on every token, scaled going in: its values by hooks and by hand."""

import pytest
import torch
from truth import logits_of

from belvedere import StandardizedTransformer
from belvedere.components import DenseMixture
from belvedere.testing import ROWS, build

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
VALUES = ("expert_indices", "router_logits", "expert_weights", "expert_outputs", "shared_expert_output", "mlp_output")


def dense(model):
    """The blocks that have such a mixture."""
    return [number for number, block in enumerate(model.layers) if isinstance(vars(block)["mlp"], DenseMixture)]


@pytest.fixture(params=[name for name in ROWS if name in ("llama4", "llama4_text")])
def mixed(request):
    from conftest import _built

    return _built[request.param, "sdpa"]


def watched(checkpoint, number):
    """What enters the mixture and what its router and shared expert return, copied before the model adds to it."""
    native = checkpoint.raw.get_submodule(f"{checkpoint.row.blocks}.{number}.feed_forward")
    seen = {}

    def keep(name):
        def hook(_, args, output):
            seen[name] = (
                args[0].clone(),
                *(one.clone() for one in (output if isinstance(output, tuple) else [output])),
            )

        return hook

    parts = {"router": native.router, "shared": native.shared_expert, "all": native}
    handles = [part.register_forward_hook(keep(name)) for name, part in parts.items()]
    checkpoint.raw(**checkpoint.inputs)
    for handle in handles:
        handle.remove()
    return native, seen


def read(checkpoint, number):
    held = {}
    mlp = checkpoint.model.layers[number].mlp
    with checkpoint.model.trace(**checkpoint.inputs):
        for name in VALUES:
            held[name] = getattr(mlp, name).save()
    return {name: one.flatten(0, 1) for name, one in held.items()}


def test_every_value_is_what_hooks_see_or_the_parameters_give_by_hand(mixed):
    assert len(dense(mixed.model)) == 2
    for number in dense(mixed.model):
        native, seen = watched(mixed, number)
        ours = read(mixed, number)
        tokens, scores, logits = seen["router"]
        assert torch.equal(ours["router_logits"], logits)
        assert torch.equal(ours["expert_indices"], logits.topk(2, dim=1).indices)
        weights = logits.topk(2, dim=1).values.sigmoid()
        torch.testing.assert_close(ours["expert_weights"], weights)
        assert ((scores > 0).sum(1) == 2).all()
        assert torch.equal(ours["shared_expert_output"], seen["shared"][1])
        entering = tokens[:, None] * weights[..., None]
        up = (entering[:, :, None] @ native.experts.gate_up_proj[ours["expert_indices"]])[:, :, 0]
        gate, up = up.chunk(2, dim=-1)
        truth = ((up * native.experts.act_fn(gate))[:, :, None] @ native.experts.down_proj[ours["expert_indices"]])[
            :, :, 0
        ]
        torch.testing.assert_close(ours["expert_outputs"], truth, **CLOSE)
        assert torch.equal(ours["mlp_output"], seen["all"][1])
        torch.testing.assert_close(
            ours["expert_outputs"].sum(1) + ours["shared_expert_output"], ours["mlp_output"], **CLOSE
        )


def logits_with_scores(checkpoint, number, change):
    """The logits of a plain forward whose router returns other scores."""
    router = checkpoint.raw.get_submodule(f"{checkpoint.row.blocks}.{number}.feed_forward.router")
    handle = router.register_forward_hook(lambda _, args, output: (change(output[0]), output[1]))
    try:
        return logits_of(checkpoint.raw(**checkpoint.inputs))
    finally:
        handle.remove()


def test_written_weights_are_other_scores_of_the_same_experts(mixed):
    number = dense(mixed.model)[0]
    expected = logits_with_scores(mixed, number, lambda scores: scores * 0.5)
    mlp = mixed.model.layers[number].mlp
    with mixed.model.trace(**mixed.inputs):
        mlp.expert_weights = mlp.expert_weights * 0.5
        assigned = mixed.model.logits.save()
    with mixed.model.trace(**mixed.inputs):
        mlp.expert_weights[:] *= 0.5
        in_place = mixed.model.logits.save()
    assert torch.equal(assigned, expected)
    assert torch.equal(in_place, expected)


def test_written_indices_send_tokens_elsewhere_and_the_outputs_are_the_new_experts(mixed):
    number = dense(mixed.model)[0]
    expected = logits_with_scores(mixed, number, lambda scores: scores.roll(1, dims=1))
    mlp = mixed.model.layers[number].mlp
    with mixed.model.trace(**mixed.inputs):
        mlp.expert_indices = (mlp.expert_indices + 1) % 4
        outputs = mlp.expert_outputs.save()
        shared = mlp.shared_expert_output.save()
        added = mlp.mlp_output.save()
        logits = mixed.model.logits.save()
    assert torch.equal(logits, expected)
    torch.testing.assert_close(outputs.sum(-2) + shared, added, **CLOSE)


@pytest.mark.parametrize("value", ["expert_outputs", "shared_expert_output"])
def test_zeroing_a_part_takes_it_out_of_the_sum(mixed, value):
    number = dense(mixed.model)[-1]
    ours = read(mixed, number)
    part = ours[value].sum(1) if value == "expert_outputs" else ours[value]
    mlp = mixed.model.layers[number].mlp
    for way in ("assigned", "in place"):
        with mixed.model.trace(**mixed.inputs):
            if way == "assigned":
                setattr(mlp, value, 0)
            else:
                getattr(mlp, value)[:] = 0
            added = mlp.mlp_output.save()
        torch.testing.assert_close(ours["mlp_output"] - part, added.flatten(0, 1), **CLOSE)


def test_a_saved_shared_output_stays_as_it_was_read(mixed):
    number = dense(mixed.model)[0]
    _, seen = watched(mixed, number)
    with mixed.model.trace(**mixed.inputs):
        shared = mixed.model.layers[number].mlp.shared_expert_output.save()
        logits = mixed.model.logits.save()
    assert torch.equal(shared.flatten(0, 1), seen["shared"][1])
    assert torch.equal(logits, mixed.logits)


def test_an_edit_of_one_invoke_s_experts_leaves_the_other_alone(mixed):
    model, number = mixed.model, dense(mixed.model)[0]
    first, second = mixed.row.solo(0), mixed.row.solo(1)
    mlp = model.layers[number].mlp
    with model.trace() as tracer:
        with tracer.invoke(**first):
            plain = model.logits.save()
        with tracer.invoke(**second):
            other = model.logits.save()
    with model.trace() as tracer:
        with tracer.invoke(**first):
            mlp.expert_outputs[:] = 0
            mlp.shared_expert_output[:] = 0
            added = mlp.mlp_output.save()
            edited = model.logits.save()
        with tracer.invoke(**second):
            outputs = mlp.expert_outputs.save()
            untouched = model.logits.save()
    assert added.abs().max() == 0
    assert outputs.abs().max() > 0
    assert not torch.allclose(edited, plain)
    torch.testing.assert_close(untouched, other, atol=1e-5, rtol=1e-5)


def test_a_checkpoint_whose_config_asks_for_a_dict_traces_and_has_its_logits():
    """Its default, with which the forward of transformers 5.24 fails."""
    module = build("llama4", return_dict=True)
    inputs = ROWS["llama4"].inputs()
    with pytest.raises(AttributeError, match="image_outputs"):
        module(**inputs)
    model = StandardizedTransformer(build("llama4", return_dict=True))
    with model.trace(**inputs):
        logits = model.logits.save()
    assert logits.shape == (*inputs["input_ids"].shape, 64)
    model = StandardizedTransformer.from_config(ROWS["llama4"].config())
    assert model.support()["vision.image_features"] is None
