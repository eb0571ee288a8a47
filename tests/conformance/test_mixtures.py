"""A mixture's values are what hooks see on its router and its experts, or what its parameters give by hand."""

from functools import partial

import pytest
import torch
from truth import hooked

from belvedere import StandardizedTransformer
from belvedere.components import Mixture, MixtureBeside
from belvedere.testing import ROWS, build

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
ROUTED = ("router_logits", "expert_indices", "expert_weights", "expert_outputs")


def mixtures(model):
    """``(mlp, native path of its router, native path of its experts)`` of each block that has a mixture as its MLP."""
    parts = [block.mlp for block in model.layers if isinstance(vars(block).get("mlp"), Mixture)]
    parts = [mlp for mlp in parts if not isinstance(mlp, MixtureBeside)]
    return [(mlp, mlp.router.path.removeprefix("model."), mlp.experts.path.removeprefix("model.")) for mlp in parts]


WITH = [name for name, row in ROWS.items() if mixtures(StandardizedTransformer.from_config(row.config()))]


@pytest.fixture(params=WITH)
def mixed(request):
    from conftest import _built

    return _built[request.param, "sdpa"]


def experts_call(checkpoint, router, experts):
    """What a hook sees on the experts: the flat tokens, the choices and their weights, and what is returned."""
    seen = hooked(checkpoint.raw, checkpoint.inputs, router, experts)
    (tokens, indices, weights), _, returned = seen[experts]
    return seen[router][2][0], tokens, indices, weights, returned


def by_hand(experts, tokens, indices):
    """Each chosen expert of each token from its parameters: a gated product, and a projection."""
    gate, up = (experts.gate_up_proj[indices] @ tokens[:, None, :, None])[..., 0].chunk(2, dim=-1)
    return (experts.down_proj[indices] @ (experts.act_fn(gate) * up)[..., None])[..., 0]


def read(model, mlp, inputs, *names):
    held = []
    with model.trace(**inputs):
        for name in names:
            held.append(getattr(mlp, name).save())
    return held


def test_scores_choices_and_weights_are_what_hooks_see_on_router_and_experts(mixed):
    size = mixed.inputs["input_ids"].shape
    for mlp, router, experts in mixtures(mixed.model):
        scores, _, indices, weights, _ = experts_call(mixed, router, experts)
        held = read(mixed.model, mlp, mixed.inputs, "router_logits", "expert_indices", "expert_weights")
        for ours, theirs in zip(held, (scores, indices, weights), strict=True):
            assert ours.shape[:2] == size
            assert torch.equal(ours.flatten(0, 1), theirs)
        assert held[0].shape[-1] == mlp.axis_size("experts")
        assert held[1].shape[-1] == held[2].shape[-1] == mlp.axis_size("routed")


def test_each_experts_output_is_its_parameters_by_hand(mixed):
    for mlp, router, experts in mixtures(mixed.model):
        _, tokens, indices, _, _ = experts_call(mixed, router, experts)
        (outputs,) = read(mixed.model, mlp, mixed.inputs, "expert_outputs")
        truth = by_hand(mixed.raw.get_submodule(experts), tokens, indices)
        torch.testing.assert_close(outputs.flatten(0, 1), truth, **CLOSE)


def test_the_weighed_sum_and_the_shared_expert_are_what_the_mixture_adds(mixed):
    for mlp, router, experts in mixtures(mixed.model):
        returned = experts_call(mixed, router, experts)[-1]
        weights, outputs = read(mixed.model, mlp, mixed.inputs, "expert_weights", "expert_outputs")
        total = (weights[..., None] * outputs).sum(-2)
        torch.testing.assert_close(total.flatten(0, 1), returned, **CLOSE)
        if mlp.support()["shared_expert_output"] is None:
            total = total + read(mixed.model, mlp, mixed.inputs, "shared_expert_output")[0]
        whole = hooked(mixed.raw, mixed.inputs, mlp.path.removeprefix("model."))
        (native,) = whole.values()
        torch.testing.assert_close(total, native[2].view_as(total), **CLOSE)


def logits_with_call(checkpoint, experts, change):
    """The logits of a plain forward in which the experts' choices and weights are changed."""

    def hook(_, args):
        tokens, indices, weights = args
        return (tokens, *change(indices.clone(), weights.clone()))

    handle = checkpoint.raw.get_submodule(experts).register_forward_pre_hook(hook)
    try:
        return checkpoint.raw(**checkpoint.inputs).logits
    finally:
        handle.remove()


def elsewhere(count, indices, weights):
    """Every token to the next expert, with half the weight."""
    return (indices + 1) % count, weights * 0.5


def without_the_first(indices, weights):
    return indices, weights * (torch.arange(weights.shape[1]) > 0)


def test_written_choices_and_weights_are_the_same_edit_by_a_raw_hook(mixed):
    model, inputs = mixed.model, mixed.inputs
    for mlp, _, experts in mixtures(model):
        with model.trace(**inputs):
            mlp.expert_indices = (mlp.expert_indices + 1) % mlp.num_experts
            mlp.expert_weights = mlp.expert_weights * 0.5
            logits = model.logits.save()
        truth = logits_with_call(mixed, experts, partial(elsewhere, mlp.num_experts))
        assert torch.equal(logits, truth)
        with model.trace(**inputs):
            mlp.expert_indices[:] = (mlp.expert_indices + 1) % mlp.num_experts
            mlp.expert_weights[:] *= 0.5
            logits = model.logits.save()
        assert torch.equal(logits, truth)
        assert not torch.allclose(logits, mixed.logits)


@pytest.mark.parametrize("way", ["in place", "assigned"])
def test_a_written_output_replaces_that_experts_part_of_the_sum(mixed, way):
    model, inputs = mixed.model, mixed.inputs
    for mlp, _, experts in mixtures(model):
        with model.trace(**inputs):
            weights = mlp.expert_weights.save()
            outputs = mlp.expert_outputs.save()
            before = mlp.mlp_output.save()
        with model.trace(**inputs):
            if way == "in place":
                mlp.expert_outputs[:, :, 0] = 0
            else:
                mlp.expert_outputs = outputs * torch.tensor([0.0, *[1.0] * (mlp.num_routed - 1)])[:, None]
            after = mlp.mlp_output.save()
            logits = model.logits.save()
        torch.testing.assert_close(before - after, weights[:, :, 0, None] * outputs[:, :, 0], **CLOSE)
        # Whoever weighs the first choice by nothing has the same model.
        truth = logits_with_call(mixed, experts, without_the_first)
        torch.testing.assert_close(logits, truth, **CLOSE)


def test_the_routers_scores_are_reported_and_read_by_nobody(mixed):
    for mlp, _, _ in mixtures(mixed.model):
        with mixed.model.trace(**mixed.inputs):
            mlp.router_logits[:] = 0
            logits = mixed.model.logits.save()
        assert torch.equal(logits, mixed.logits)


@pytest.mark.parametrize("kernel", ["eager", "batched_mm", "grouped_mm"])
def test_values_do_not_depend_on_the_experts_kernel(mixed, kernel):
    module = build(mixed.name)
    module.get_submodule(mixed.row.stack).set_experts_implementation(kernel)
    model = StandardizedTransformer(module)
    for mlp, other in zip(mixtures(model), mixtures(mixed.model), strict=True):
        for ours, theirs in zip(
            read(model, mlp[0], mixed.inputs, *ROUTED), read(mixed.model, other[0], mixed.inputs, *ROUTED), strict=True
        ):
            torch.testing.assert_close(ours, theirs, **CLOSE)


def test_a_dense_block_says_so_and_a_stack_may_have_both(mixed):
    parts = {type(block.mlp) for block in mixed.model.layers}
    support = mixed.model.support()["layers.expert_outputs"]
    assert (support is None) is (len(parts) == 1)
    for number, reason in (support or {}).items():
        assert "dense" in reason
        assert not isinstance(mixed.model.layers[number].mlp, Mixture)
