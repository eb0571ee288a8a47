"""The parts of the engine that no model is needed for, and a sweep that is killed."""

from dataclasses import dataclass, field

import pytest
import torch
from safetensors import safe_open
from test_engine import METRIC, model_of, pair_of

from belvedere import InputError
from belvedere.experiments import logit_difference, patch
from belvedere.experiments.engine import saved
from belvedere.experiments.engine.cuts import EVERY, cuts_of
from belvedere.experiments.engine.growth import Copies
from belvedere.experiments.engine.pace import FIRST, MOST, UNMEASURED, WORTH, Host, Pace
from belvedere.experiments.engine.text import TextCells

VALUE = "layers.layer_output"


# What grows with the number of prompts


def test_what_grows_is_seen_in_one_prompt_and_in_two():
    copies = Copies(3, 7)
    rotary, positions, flat = torch.randn(2, 7, 4), torch.arange(42).view(3, 2, 7), torch.randn(14, 5)
    assert copies.of(rotary[:1], rotary).shape == (3, 7, 4)
    assert torch.equal(copies.of(positions[:, :1], positions), positions[:, :1].expand(3, 3, 7))
    assert torch.equal(copies.of(flat[:7], flat), flat[:7].repeat(3, 1))
    shared = torch.randn(1, 7, 4)
    assert copies.of(shared, shared).shape == (1, 7, 4)
    assert copies.of("sdpa", "sdpa") == "sdpa"


def test_only_the_positions_that_are_run_are_passed():
    copies = Copies(2, 7, 4)
    pair, mask = (torch.randn(2, 7, 4), torch.randn(2, 7, 4)), torch.randn(2, 1, 7, 7)
    cos, sin = copies.of(tuple(one[:1] for one in pair), pair)
    assert torch.equal(cos[1], pair[0][0, 4:])
    assert torch.equal(sin[0], pair[1][0, 4:])
    # All that is attended to stays.
    assert torch.equal(copies.of(mask[:1], mask)[1], mask[0, :, 4:])
    rows = Copies(1, 7, rows=torch.tensor([5, 2, 5]))
    assert torch.equal(rows.of(pair[0][:1], pair[0])[0], pair[0][0, [5, 2, 5]])


def test_what_is_one_object_stays_one():
    copies, held = Copies(2, 3), torch.randn(2, 3, 4)
    assert copies.of(held[:1], held) is copies.of(held[:1], held)


# From where on blocks run alone


def cuts(*masks, kept=None):
    made = cuts_of(masks, 6, torch.ones(6, dtype=torch.bool) if kept is None else kept)
    return made.nonzero().flatten().tolist()


def test_a_causal_mask_is_cut_anywhere():
    causal = torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()
    added = torch.where(causal, 0.0, torch.finfo(torch.float32).min)
    window = causal & ~causal.tril(-3)
    assert cuts(EVERY) == cuts(causal) == cuts(added) == cuts(causal, window) == [0, 1, 2, 3, 4, 5, 6]


def test_no_cut_goes_through_what_sees_both_ways():
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()
    mask[..., 2:5, 2:5] = True
    assert cuts(mask) == [0, 1, 2, 5, 6]
    assert cuts(mask, torch.ones_like(mask)) == [0, 6]
    assert cuts(None) == [0, 6]
    # Padding may attend to anything, for nobody reads it.
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()
    mask[..., :2, :] = True
    assert cuts(mask, kept=torch.arange(6) > 1) == [0, 1, 2, 3, 4, 5, 6]


# How many cells share a forward


@dataclass
class Counted:
    """A memory in which every row of a cell takes so many bytes."""

    room: int | None
    each: int
    cells: int = 0
    asked: list = field(default_factory=list)

    def free(self):
        return self.room

    def begin(self):
        self.asked.append(self.cells)

    def taken(self):
        return self.each * self.cells


def settled(speeds, room=10**12, each=1):
    pace = Pace(Counted(room, each))
    for size in speeds:
        if pace.size(1) == size:
            pace._bytes = each
            pace._settle(speeds[size])
    return pace.size(1)


def test_more_cells_share_a_forward_while_that_is_faster():
    assert settled({FIRST: 1.0}) == 2 * FIRST
    assert settled({FIRST: 1.0, 2 * FIRST: 1.5}) == 4 * FIRST
    assert settled({FIRST: 1.0, 2 * FIRST: 1.01}) == FIRST
    faster = {FIRST * 2**step: 2.0**step for step in range(10)}
    assert settled(faster) == MOST


def test_a_size_is_tried_where_it_is_worth_it():
    pace = Pace(Counted(10**12, 1))
    pace._settle(1.0)
    assert pace.size(1, left=WORTH * 2 * FIRST - 1) == FIRST
    assert pace.size(1, left=WORTH * 2 * FIRST) == 2 * FIRST


def test_memory_bounds_them():
    pace = Pace(Counted(1000, 10))
    assert pace.size(1) == FIRST
    pace.memory.cells = FIRST
    with pace.measured(FIRST, 1, FIRST):
        pass
    # Half of what is free, at ten bytes a row.
    assert pace.size(1) == 50
    assert pace.size(5) == 10
    assert pace.size(10**6) == 1


def test_a_number_of_cells_may_be_chosen_and_nothing_is_measured_then():
    memory = Counted(None, 1)
    assert Pace(memory).size(1) == UNMEASURED
    pace = Pace(memory, 7)
    with pace.measured(7, 1, 7):
        pass
    assert pace.size(10**9) == 7
    assert memory.asked == []


def test_fewer_are_run_where_memory_does_not_hold_them(monkeypatch):
    ran, run = [], TextCells.logits

    def logits(self, cells):
        ran.append(len(cells))
        if len(cells) > 10:
            raise torch.OutOfMemoryError
        return run(self, cells)

    result = sweep(METRIC, None, batch_cells=None)
    monkeypatch.setattr(TextCells, "logits", logits)
    again = sweep(METRIC, None, batch_cells=None)
    assert ran == [20, 10, 10]
    torch.testing.assert_close(again.raw, result.raw)
    with pytest.raises(torch.OutOfMemoryError):
        sweep(METRIC, None, batch_cells=20)


def test_a_process_knows_what_it_takes():
    memory = Host()
    if memory.free() is None:
        return
    memory.begin()
    held = torch.ones(2**24)
    assert memory.taken() > 2**25
    assert memory.free() > held.numel()


# A sweep that is killed


class Killed(Exception):  # noqa: N818 - it is no error
    """Stands for the end of the process."""


def counting(most=None):
    """A metric that is killed after so many calls, and what it was asked for."""
    asked = []

    def metric(logits):
        if most is not None and len(asked) == most:
            raise Killed
        asked.append(len(logits))
        return METRIC(logits)

    return metric, asked


def sweep(metric, file, **options):
    options = {"positions": range(5, 15), "batch_cells": 4, **options}
    return patch(model_of("llava"), *pair_of("llava"), VALUE, metric, file=file, **options)


def test_a_killed_sweep_goes_on_from_its_file(tmp_path):
    file = tmp_path / "sweep.safetensors"
    killed, asked = counting(most=4)
    with pytest.raises(Killed):
        sweep(killed, file)
    assert asked == [1, 1, 4, 4]
    metric, asked = counting()
    result = sweep(metric, file)
    # All blocks but the last, behind which no position but the last reaches the logits.
    assert sum(asked[2:]) == 20 - 8
    torch.testing.assert_close(result.raw, sweep(METRIC, None).raw, atol=0, rtol=0)
    metric, asked = counting()
    again = sweep(metric, file)
    assert asked == [1, 1]
    assert torch.equal(again.raw, result.raw)
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.safetensors"]


def test_scores_are_written_as_they_come(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "SECONDS", -1.0)
    file, seen = tmp_path / "sweep.safetensors", []

    def metric(logits):
        if file.exists():
            with safe_open(file, framework="pt") as opened:
                seen.append(int((~opened.get_tensor("raw").isnan()).sum()))
        return METRIC(logits)

    sweep(metric, file)
    # The last block's cells are idle, and known before any other is run.
    assert seen == [10, 14, 18, 22, 26]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": [0]}, "its layers differ"),
        ({"positions": [5]}, "its positions differ"),
        ({"metric": logit_difference(9, 21)}, "its metric differ"),
    ],
)
def test_the_file_of_another_sweep_is_refused(tmp_path, change, said):
    file = tmp_path / "sweep.safetensors"
    sweep(METRIC, file)
    with pytest.raises(InputError, match=said) as caught:
        sweep(**{"metric": METRIC, "file": file, **change})
    assert "pass another `file`, or remove sweep.safetensors" in str(caught.value)


def test_other_pictures_are_another_sweep(tmp_path):
    file = tmp_path / "sweep.safetensors"
    sweep(METRIC, file)
    clean, corrupt = pair_of("llava")
    corrupt = {**corrupt, "pixel_values": corrupt["pixel_values"] + 1}
    with pytest.raises(InputError, match="its inputs differ"):
        patch(model_of("llava"), clean, corrupt, VALUE, METRIC, positions=range(5, 15), file=file)


def test_other_weights_are_another_sweep(tmp_path):
    file = tmp_path / "sweep.safetensors"
    sweep(METRIC, file)
    weight = model_of("llava").lm_head._module.weight
    weight.mul_(2)
    try:
        with pytest.raises(InputError, match="its weights differ"):
            sweep(METRIC, file)
    finally:
        weight.div_(2)


def test_a_file_that_is_no_sweep_s_is_refused_and_left_as_it_is(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("something else")
    with pytest.raises(InputError, match="is no safetensors file"):
        sweep(METRIC, file)
    assert file.read_text() == "something else"
    result = tmp_path / "result.safetensors"
    sweep(METRIC, None).save(result)
    with pytest.raises(InputError, match="holds no sweep that was begun"):
        sweep(METRIC, result)
