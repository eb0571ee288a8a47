"""A staged tower compiles whole, once for packs of any number of pictures of any size."""

import pytest
import torch
from conftest import _built
from torch._dynamo.utils import counters

from belvedere.staged.segments import Pack

#: Height and width in patches; equal sizes, and sizes that are equal to the tower's width by chance.
GRIDS = ([(4, 6)], [(4, 6), (6, 4)], [(2, 4), (6, 6), (4, 4)], [(4, 4)] * 5, [(6, 6), (2, 2)], [(4, 2)])
PACKED = ["qwen3_5", "qwen2_5_vl", "qwen2_vl", "glm4v", "kimi_k25"]
SIZED = ["llava_pixtral", "mistral3"]
FIXED = ["llava", "llava_siglip", "llama4"]


def pack(name: str, grids: list[tuple[int, int]]) -> dict[str, torch.Tensor]:
    """An encoding of that many pictures of these sizes."""
    made = torch.Generator().manual_seed(len(grids))
    if name in PACKED:
        width = _built[name, "sdpa"].inputs["pixel_values"].shape[1:]
        patches = sum(rows * columns for rows, columns in grids)
        grid = torch.tensor([[1, rows, columns] for rows, columns in grids])
        return {"pixel_values": torch.randn(patches, *width, generator=made), "image_grid_thw": grid}
    if name in SIZED:
        return {
            "pixel_values": torch.randn(len(grids), 3, 48, 48, generator=made),
            "image_sizes": torch.tensor(grids) * 8,
        }
    return {"pixel_values": torch.randn(len(grids), 3, 32, 32, generator=made)}


@pytest.fixture(autouse=True)
def compiler():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def compilations() -> int:
    return counters["stats"]["unique_graphs"]


RUNS = [*((name, "sdpa") for name in [*PACKED, *SIZED, *FIXED]), ("qwen3_5", "eager"), ("llava_pixtral", "eager")]


@pytest.mark.parametrize(("name", "attention"), RUNS)
def test_packs_of_any_pictures_take_one_compilation(name, attention):
    staged = _built[name, attention].model.vision.staged
    compiled = torch.compile(staged.encode, fullgraph=True, dynamic=True, backend="eager")
    for grids in GRIDS:
        state = staged.embed(**pack(name, grids))
        ours, plain = compiled(state), staged.encode(state)
        assert compilations() == 1
        assert ours.block == plain.block
        torch.testing.assert_close(ours.hidden, plain.hidden, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(staged.merge(ours), staged.merge(plain), atol=1e-4, rtol=1e-4)
        assert ours.streams.keys() == plain.streams.keys()


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "llava", "mllama"])
def test_a_compiled_run_of_blocks_is_taken_up_by_another(name):
    checkpoint = _built[name, "sdpa"]
    staged = checkpoint.model.vision.staged
    compiled = torch.compile(staged.encode, fullgraph=True, dynamic=True, backend="eager")
    state = staged.embed(**checkpoint.inputs)
    half, plain = compiled(state, stop=1), staged.encode(state, stop=1)
    torch.testing.assert_close(half.hidden, plain.hidden, atol=1e-4, rtol=1e-4)
    ours, plain = (
        compiled(half.replace(hidden=half.hidden * 2), stop=3),
        staged.encode(plain.replace(hidden=plain.hidden * 2), stop=3),
    )
    torch.testing.assert_close(ours.hidden, plain.hidden, atol=1e-4, rtol=1e-4)
    assert ours.streams.keys() == plain.streams.keys()


# The compiler asks every input for its gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_run_has_the_gradients_of_the_plain_one():
    checkpoint = _built["qwen2_5_vl", "sdpa"]
    staged, gradients = checkpoint.model.vision.staged, []
    compiled = torch.compile(staged.encode, fullgraph=True, dynamic=True, backend="aot_eager")
    for encode in (compiled, staged.encode):
        inputs = pack("qwen2_5_vl", GRIDS[2])
        pixels = inputs["pixel_values"].requires_grad_()
        with torch.enable_grad():
            staged.merge(encode(staged.embed(**inputs))).square().sum().backward()
        gradients.append(pixels.grad)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


def test_a_compiled_run_sees_weights_that_change():
    from belvedere import StandardizedTransformer
    from belvedere.testing import build

    model = StandardizedTransformer(build("qwen3_5"))
    staged = model.vision.staged
    compiled = torch.compile(staged.encode, fullgraph=True, dynamic=True, backend="eager")
    state = staged.embed(**pack("qwen3_5", GRIDS[1]))
    before = compiled(state).hidden
    with torch.no_grad():
        model.vision.layers[1].self_attn.proj.weight.mul_(2)
    after = compiled(state).hidden
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, staged.encode(state).hidden, atol=1e-4, rtol=1e-4)
    assert compilations() == 1


def test_a_compiled_run_sees_a_layer_that_was_replaced_and_another_mode():
    from belvedere import StandardizedTransformer
    from belvedere.testing import build

    model = StandardizedTransformer(build("qwen3_5"))
    staged = model.vision.staged
    block = staged.blocks[1]
    block.attn.proj = torch.nn.Linear(24, 24).eval()
    compiled = torch.compile(staged.encode, fullgraph=True, dynamic=True, backend="eager")
    state = staged.embed(**pack("qwen3_5", GRIDS[1]))
    torch.testing.assert_close(compiled(state).hidden, staged.encode(state).hidden, atol=1e-4, rtol=1e-4)
    assert not any(part.training for twin in staged._bare for part in twin.modules())
    block.train()
    staged.embed(**pack("qwen3_5", GRIDS[1]))
    assert staged._bare[1].training


def test_compiling_leaves_the_model_and_its_configs_as_they_were():
    checkpoint = _built["qwen3_5", "sdpa"]
    model = checkpoint.model
    staged = model.vision.staged
    torch.compile(staged.encode, fullgraph=True, dynamic=True, backend="eager")(
        staged.embed(**pack("qwen3_5", GRIDS[0]))
    )
    assert model.vision.config._attn_implementation == "sdpa"
    with model.trace(**checkpoint.inputs):
        logits = model.logits.save()
    assert torch.equal(logits, checkpoint.logits)


@pytest.mark.parametrize("lengths", [[24], [24, 24], [8, 36, 16], [4, 4, 4, 4, 8], [16, 0, 4], [1], [1, 1], [3, 2]])
def test_a_pack_deals_every_row_out_once_with_the_keys_of_its_own_segment(lengths):
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    made = Pack.of(bounds)
    row, segment = (
        torch.arange(sum(lengths)),
        torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)),
    )
    assert torch.equal(made.queries.flatten()[made.back], row)
    # No size is one, which a compiler would treat apart.
    assert min(*made.queries.shape, *made.keys.shape) >= 2
    slots = made.back // made.queries.shape[1]
    for place, slot in zip(row.tolist(), slots.tolist(), strict=True):
        keys = made.keys[slot][made.real[slot, 0, 0]]
        assert torch.equal(keys, row[segment == segment[place]])


def test_a_pack_of_one_length_takes_no_more_products_than_its_segments():
    made = Pack.of(torch.tensor([0, 16, 32, 48]))
    assert made.queries.numel() * made.keys.shape[1] == 3 * 16 * 16
    alone = Pack.of(torch.tensor([0, 64]))
    assert alone.queries.numel() * alone.keys.shape[1] == 64 * 64
