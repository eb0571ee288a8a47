"""The contract holds on every row of the zoo by its own encoding, and on the trained checkpoints by a drawn picture."""

import pytest
import torch
from truth import logits_of

import belvedere
from belvedere import StandardizedTransformer
from belvedere.testing import ROWS


def states(module):
    """The hooks and modes of every part of a module."""
    return [
        (len(part._forward_hooks), len(part._forward_pre_hooks), part.training, sorted(vars(part)))
        for part in module.modules()
    ]


@pytest.mark.parametrize("name", list(ROWS))
def test_the_contract_holds_on_a_row_and_nothing_is_left_behind(name):
    from conftest import _built

    checkpoint = _built[name, "sdpa"]
    module, inputs = checkpoint.model._module, checkpoint.inputs
    module(**{**checkpoint.row.forward, **inputs})
    before = states(module)
    report = checkpoint.model.verify(**inputs)
    assert report.passed, [one.lines for one in report.failed]
    assert states(module) == before
    assert torch.equal(logits_of(module(**{**checkpoint.row.forward, **inputs})), checkpoint.logits)
    status = {one.number: one.status for one in report.clauses}
    assert (status[1] == "pass") is bool(checkpoint.row.tower and not checkpoint.row.cross)
    assert [status[number] for number in range(2, 9)] == ["pass"] * 7


@pytest.mark.trained
@pytest.mark.parametrize("name", ["shapes-llava", "shapes-qwen3_5"])
def test_a_trained_checkpoint_holds_to_all_clauses_on_a_drawn_picture(name):
    model = StandardizedTransformer(belvedere.checkpoint(name), dispatch=True)
    report = model.verify()
    assert [one.status for one in report.clauses] == ["pass"] * 8, [one.lines for one in report.failed]
    assert "synthetic picture" in report.settings["input"]
