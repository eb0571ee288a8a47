"""Modules that are answered for: what they return is given, they do not run, and all is put back."""

import pytest
import torch
from conftest import _built
from truth import first, hooked, logits_of

from belvedere.staged import answered, standing_in


class Doubling(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def forward(self, held: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return held * 2


@pytest.fixture
def chain() -> torch.nn.Sequential:
    return torch.nn.Sequential(Doubling(), Doubling(), Doubling())


def test_an_answered_module_does_not_run(chain):
    given = torch.full((2, 3), 5.0)
    with answered([chain[1]], [given]):
        assert torch.equal(chain(torch.ones(2, 3)), given * 2)
    assert [one.runs for one in chain] == [1, 0, 1]
    assert torch.equal(chain(torch.ones(2, 3)), torch.full((2, 3), 8.0))


def test_what_nobody_should_read_is_nan_of_the_inputs_shape(chain):
    with answered([*chain], [None, torch.ones(2, 3), None]):
        assert torch.equal(chain[0](torch.ones(4, 5)).isnan(), torch.ones(4, 5, dtype=torch.bool))
        assert chain(torch.zeros(2, 3)).isnan().all()
    with answered([*chain], [None, (torch.ones(2, 3),), None]):
        assert isinstance(chain[0](held=torch.ones(4, 5)), tuple)


def test_all_is_put_back_whatever_happens(chain):
    chain[0].forward = own = lambda held: held
    hook = chain[1].register_forward_hook(lambda *_: None)
    with pytest.raises(ZeroDivisionError), standing_in([*chain], lambda *_: 1 / 0):
        chain(torch.ones(2, 3))
    assert vars(chain[0])["forward"] is own
    assert "forward" not in vars(chain[1])
    assert [*chain[1]._forward_hooks] == [hook.id]


def test_one_who_stands_in_is_told_the_number_the_forward_and_the_call(chain):
    seen = []

    def answer(number, forward, args, kwargs):
        seen.append((number, args[0].sum().item(), kwargs))
        return forward(*args, **kwargs)

    with standing_in([*chain], answer):
        chain(torch.ones(1, 1))
    assert seen == [(0, 1.0, {}), (1, 2.0, {}), (2, 4.0, {})]
    assert [one.runs for one in chain] == [1, 1, 1]


def test_a_module_that_is_called_too_often_is_named(chain):
    with answered([chain[1]], [torch.ones(1)], most=1):
        chain(torch.ones(1))
        with pytest.raises(RuntimeError, match="Doubling number 0 is called more than 1 time"):
            chain(torch.ones(1))
    with answered([chain[1]], [torch.ones(1)]):
        chain(chain(torch.ones(1)))


def test_answers_within_answers(chain):
    with answered([chain[0]], [torch.ones(1)]):
        with answered([chain[0]], [torch.full((1,), 3.0)]):
            assert chain(torch.zeros(1)) == 12
        assert chain(torch.zeros(1)) == 4
    assert chain(torch.zeros(1)) == 0


def test_hooks_of_an_answered_module_are_silent_and_keep_their_order(chain):
    heard = []
    early, late = (chain[1].register_forward_hook(lambda *_, name=name: heard.append(name)) for name in "ab")
    before = chain[1].register_forward_pre_hook(lambda *_: heard.append("before"))
    with answered([chain[1]], [torch.ones(1)]):
        chain(torch.ones(1))
        assert not heard
    chain(torch.ones(1))
    assert heard == ["before", "a", "b"]
    for handle in (early, late, before):
        handle.remove()
    assert not chain[1]._forward_hooks


def test_one_forward_answers_for_several_edits():
    """What a sweep does: the prompt stands in several rows, each with a tower's stream of its own."""
    checkpoint = _built["llava", "sdpa"]
    staged, inputs = checkpoint.model.vision.staged, checkpoint.row.solo(0)
    half = staged.encode(staged.embed(**inputs), stop=1)
    edits = [staged.encode(half.replace(hidden=half.hidden * factor)) for factor in (1.0, 0.5, -2.0)]
    blocks = [checkpoint.raw.get_submodule(f"{checkpoint.row.tower}.{number}") for number in range(3)]
    outputs = [None, torch.cat([one.kept[1] for one in edits]), None]
    rows = {key: held.repeat_interleave(3, 0) for key, held in inputs.items()}
    with answered(blocks, outputs):
        together = checkpoint.raw(**rows).logits
    for number, edit in enumerate(edits):
        with staged.answered(edit):
            alone = checkpoint.model._module(**inputs).logits
        torch.testing.assert_close(together[number], alone[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llava", "qwen3_vl", "mllama", "llama4"])
def test_a_raw_model_runs_on_answers_for_its_tower(name):
    checkpoint = _built[name, "sdpa"]
    raw, row = checkpoint.untouched("sdpa"), checkpoint.row
    paths = [f"{row.tower}.{number}" for number in range(3)]
    outputs = [held[2] for held in hooked(checkpoint.raw, checkpoint.inputs, *paths).values()]
    blocks = [raw.get_submodule(path) for path in paths]
    ran = []
    handles = [part.register_forward_hook(lambda *_: ran.append(1)) for block in blocks for part in block.children()]
    # On its first forward transformers installs what records hidden states, on answered modules too.
    with answered(blocks, outputs):
        assert torch.equal(logits_of(raw(**checkpoint.inputs)), checkpoint.logits)
        assert not ran
    for handle in handles:
        handle.remove()
    assert torch.equal(logits_of(raw(**checkpoint.inputs)), checkpoint.logits)
    zeros = [(torch.zeros_like(first(one)),) if isinstance(one, tuple) else torch.zeros_like(one) for one in outputs]
    with answered(blocks, zeros):
        assert not torch.equal(logits_of(raw(**checkpoint.inputs)), checkpoint.logits)
