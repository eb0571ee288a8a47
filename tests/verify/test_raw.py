"""What is kept of a tensor tells it from every other one, and the modes and hooks that look on change nothing."""

import pytest
import torch

from belvedere.verifying import raw

TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_one_bit_changes_a_print_and_another_order_changes_its_order_alone(dtype):
    held = (torch.arange(1000).sub(500) % 7).to(dtype).view(10, 100)
    made = raw.fingerprint(held)
    assert raw.fingerprint(held.clone()) == made
    changed = held.clone()
    changed[3, 4] = 0 if changed[3, 4] else 1
    assert raw.fingerprint(changed).elements != made.elements
    turned = raw.fingerprint(held.T)
    assert (turned.count, turned.elements) == (made.count, made.elements)
    assert turned.order != made.order
    assert raw.fingerprint(held.flip(0)).order != made.order


def test_a_print_of_many_chunks_knows_their_order(monkeypatch):
    monkeypatch.setattr(raw, "CHUNK", 64)
    raw._places.cache_clear()
    held = torch.randn(4, 64)
    made, moved = raw.fingerprint(held), raw.fingerprint(held[[1, 0, 2, 3]])
    assert made.elements == moved.elements
    assert made.order != moved.order
    raw._places.cache_clear()


def test_parts_of_a_tensor_add_up_to_its_elements():
    held = torch.randn(6, 5)
    whole, parts = raw.fingerprint(held), [raw.fingerprint(one) for one in held.split(2)]
    total = parts[0] + parts[1] + parts[2]
    assert (total.count, total.elements) == (whole.count, whole.elements)


def test_no_two_of_many_numbers_have_one_print():
    seen = {raw.fingerprint(torch.tensor([number])).elements for number in range(-5000, 5000)}
    assert len(seen) == 10_000


class Doubling(torch.nn.Module):
    def forward(self, held):
        return (held * 2).add_(1)


def test_what_passes_an_operation_is_noted_before_it_is_written_over_and_only_inside():
    module, outside = Doubling(), torch.randn(3)
    held = torch.randn(3)
    with raw.Passing({module: {3}}) as passing:
        outside.exp()
        returned = module(held)
    noted = passing.seen[module]
    for tensor, inside in ((held, True), (held * 2, True), (returned, True), (outside, False), (outside.exp(), False)):
        made = raw.fingerprint(tensor)
        assert ((made.count, made.elements) in noted) is inside
    assert not module._forward_hooks
    assert not module._forward_pre_hooks
