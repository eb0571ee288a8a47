"""A cut edge, against a raw eager model with an additive mask."""

import sys
from contextlib import contextmanager

import pytest
import torch
from conftest import _built
from test_truth import model_of

from belvedere import InputError, Unavailable, shapes
from belvedere.experiments import Inside, KnockoutResult, kl_divergence, knockout, logit, logit_difference
from belvedere.experiments.patterns import without
from belvedere.testing import build

METRIC = logit_difference(9, 20)
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
LOWEST = -1e9


@contextmanager
def masked(module, paths, edges, lowest=LOWEST):
    """While it holds, attentions of a raw eager model get a number added at some edges of their scores.

    ``edges`` maps the number of an attention's call to ``[query, key]``, or is one such tensor for all calls.
    """
    modules = {module.get_submodule(path) for path in paths}
    home = sys.modules[type(next(iter(modules))).__module__]
    eager, calls = home.eager_attention_forward, dict.fromkeys(modules, 0)

    def patched(host, query, key, value, attention_mask, *args, **kwargs):
        if host in modules:
            extra = edges[calls[host]] if isinstance(edges, list) else edges
            calls[host] += 1
            extra = torch.zeros(extra.shape, dtype=query.dtype).masked_fill(extra, lowest)[None, None]
            attention_mask = extra if attention_mask is None else attention_mask[..., : key.shape[-2]] + extra
        return eager(host, query, key, value, attention_mask, *args, **kwargs)

    home.eager_attention_forward = patched
    try:
        yield
    finally:
        home.eager_attention_forward = eager


def raw_logits(module, encoding):
    with torch.no_grad():
        return module(**encoding).logits[:, -1].float()


def eager_of(rig):
    return build(rig.name, "eager").double()


def square(length, queries, keys):
    edges = torch.zeros(length, length, dtype=torch.bool)
    edges[torch.tensor(queries)[:, None], torch.tensor(keys)] = True
    return edges


def test_a_cut_in_the_text_is_a_mask_under_the_softmax(rig):
    length, queries, keys = rig.clean["input_ids"].shape[1], [20, -1], [5, 6, 9]
    result = knockout(rig.model, rig.clean, (queries, keys), METRIC, window=1)
    raw = eager_of(rig)
    edges = square(length, [20, length - 1], keys)
    for column, span in enumerate(result.windows):
        with masked(raw, [f"model.language_model.layers.{number}.self_attn" for number in span], edges):
            expected = METRIC(raw_logits(raw, rig.clean))
        torch.testing.assert_close(result.raw[0, column], expected[0], **CLOSE)
    assert result.effects.abs().max() > 1e-3


def test_a_cut_in_a_window_of_blocks_is_one_in_each(rig):
    result = knockout(rig.model, rig.clean, ("last", "image"), METRIC)
    raw, length = eager_of(rig), rig.clean["input_ids"].shape[1]
    (span,) = result.windows
    places = (rig.clean["input_ids"][0] == 5).nonzero().flatten().tolist()
    with masked(
        raw, [f"model.language_model.layers.{n}.self_attn" for n in span], square(length, [length - 1], places)
    ):
        expected = METRIC(raw_logits(raw, rig.clean))
    torch.testing.assert_close(result.raw[0, 0], expected[0], **CLOSE)
    assert result.names == ("last <- image",)
    assert result.plain == pytest.approx(float(METRIC(raw_logits(rig.raw, rig.clean))), abs=1e-5)


def test_a_cut_in_an_unpacked_tower_is_a_mask(llava_rig):
    queries, keys = [3, 4, 19], [1, 2, 25]
    result = knockout(llava_rig.model, llava_rig.clean, (queries, keys), METRIC, stack="vision", window=1)
    raw = eager_of(llava_rig)
    # The mask is one for both pictures: the first has rows 0 to 16, the second 17 to 33.
    for column, span in enumerate(result.windows):
        module = raw.get_submodule(f"model.vision_tower.encoder.layers.{span[0]}.self_attn")
        first, second = square(17, [3, 4], [1, 2]), square(17, [2], [8])
        mask = torch.zeros(2, 1, 17, 17, dtype=torch.double).masked_fill(torch.stack([first, second])[:, None], LOWEST)
        handle = module.register_forward_pre_hook(
            lambda _, args, kwargs, mask=mask: (args, {**kwargs, "attention_mask": mask}), with_kwargs=True
        )
        expected = METRIC(raw_logits(raw, llava_rig.clean))
        handle.remove()
        torch.testing.assert_close(result.raw[0, column], expected[0], **CLOSE)
    assert result.effects[0, -1].abs() < 1e-6  # LLaVA does not read the last block
    assert result.effects[0, 0].abs() > 1e-4


def test_a_cut_in_a_packed_tower_is_a_mask_in_each_segment(qwen_rig):
    queries, keys = [3, 4, 30], [1, 2, 20, 39]
    result = knockout(qwen_rig.model, qwen_rig.clean, (queries, keys), METRIC, stack="vision", window=1)
    raw = eager_of(qwen_rig)
    # 16 patches of the first picture and 24 of the second; nothing attends from one to the other.
    edges = [square(16, [3, 4], [1, 2]), square(24, [14], [4, 23])]
    for column, span in enumerate(result.windows):
        with masked(raw, [f"model.visual.blocks.{span[0]}.attn"], edges):
            expected = METRIC(raw_logits(raw, qwen_rig.clean))
        torch.testing.assert_close(result.raw[0, column], expected[0], **CLOSE)
    assert result.effects.abs().max() > 1e-4


def test_edges_between_pictures_that_do_not_attend_carry_nothing(qwen_rig):
    result = knockout(qwen_rig.model, qwen_rig.clean, (range(16), range(16, 40)), METRIC, stack="vision")
    assert result.mass.tolist() == [[0.0]]
    assert result.effects.abs().max() < 1e-6


@pytest.mark.parametrize("name", ["gemma3", "paligemma2"])
def test_a_cut_where_a_picture_attends_both_ways(name):
    checkpoint = _built[name, "sdpa"]
    encoding = checkpoint.row.solo(0)
    places = (encoding["input_ids"][0] == 5).nonzero().flatten().tolist()
    # From an early image token to a later one: a causal model has no such edge.
    pair = (places[1], places[3:6])
    result = knockout(checkpoint.model, encoding, pair, METRIC)
    assert result.mass[0, 0] > 0.01
    raw, length = checkpoint.untouched("eager"), encoding["input_ids"].shape[1]
    paths = [f"{checkpoint.row.blocks}.{number}.self_attn" for number in result.windows[0]]
    with masked(raw, paths, square(length, [places[1]], places[3:6])):
        expected = METRIC(raw_logits(raw, encoding))
    torch.testing.assert_close(result.raw[0, 0], expected[0], atol=1e-4, rtol=1e-3)


def test_the_mass_is_what_the_queries_pay_to_the_keys(rig):
    result = knockout(rig.model, rig.clean, (-1, [5, 6]), METRIC, window=1)
    raw, seen = eager_of(rig), []
    for span in result.windows:
        module = raw.get_submodule(f"model.language_model.layers.{span[0]}.self_attn")
        handle = module.register_forward_hook(lambda _, args, output: seen.append(output[1]))
        raw_logits(raw, rig.clean)
        handle.remove()
    expected = torch.stack([pattern[0, :, -1, [5, 6]].sum(-1).mean() for pattern in seen])
    torch.testing.assert_close(result.mass[0], expected.float(), **CLOSE)


def test_without_renormalizing_the_part_is_missing():
    pattern = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]])
    edges = torch.tensor([[[True, False, False], [False, False, False]]])
    torch.testing.assert_close(without(pattern, edges, renormalize=False)[0, 0], torch.tensor([0.0, 0.3, 0.2]))
    torch.testing.assert_close(without(pattern, edges, renormalize=True)[0, 0], torch.tensor([0.0, 0.6, 0.4]))
    assert torch.equal(without(pattern, edges, renormalize=True)[0, 1], pattern[0, 1])
    assert without(pattern, torch.ones_like(edges), renormalize=True).tolist() == torch.zeros(1, 2, 3).tolist()


@pytest.mark.parametrize("stack", ["text", "vision"])
def test_cuts_that_share_a_forward_are_those_of_their_own(rig, stack):
    sets = {"text": ("last", "image", [3, 4]), "vision": ("patches", [1, 2, 20], "patches")}[stack]
    edges = {str(number): (one, other) for number, (one, other) in enumerate(zip(sets, sets[::-1], strict=True))}
    one, all_at_once = (
        knockout(
            rig.model, rig.clean, edges, METRIC, stack=stack, window=2 if rig.name == "llava" else 1, batch_cells=n
        )
        for n in (1, None)
    )
    torch.testing.assert_close(one.raw, all_at_once.raw, **CLOSE)
    with pytest.raises(InputError, match="at least one cut"):
        knockout(rig.model, rig.clean, edges, METRIC, stack=stack, batch_cells=0)


def test_what_a_sink_takes_is_not_shared_out():
    scores = torch.tensor([[[0.3, -0.2, 1.1, 0.4]]])  # the last is the sink's
    pattern = scores.softmax(-1)[..., :3]
    edges = torch.tensor([[[True, False, False]]])
    masked_scores = scores.masked_fill(torch.tensor([True, False, False, False]), -torch.inf)
    torch.testing.assert_close(without(pattern, edges, renormalize=True), masked_scores.softmax(-1)[..., :3])


def test_one_head_is_cut_alone(llava_rig):
    one = knockout(llava_rig.model, llava_rig.clean, ("last", "image"), METRIC, heads=[1], layers=[0])
    every = knockout(llava_rig.model, llava_rig.clean, ("last", "image"), METRIC, layers=[0])
    assert one.effects[0, 0] != every.effects[0, 0]
    raw = eager_of(llava_rig)
    module, seen = raw.get_submodule("model.language_model.layers.0.self_attn"), []

    def hook(host, args, kwargs, output):
        seen.append(output[1])

    module.register_forward_hook(hook, with_kwargs=True)
    raw_logits(raw, llava_rig.clean)
    places = (llava_rig.clean["input_ids"][0] == 5).nonzero().flatten()
    torch.testing.assert_close(one.mass[0, 0], seen[0][0, 1, -1, places].sum().float(), **CLOSE)
    with pytest.raises(InputError, match="no head 9"):
        knockout(llava_rig.model, llava_rig.clean, ("last", "image"), METRIC, heads=[9])


def test_blocks_without_a_pattern_are_skipped_and_named(qwen_rig):
    result = knockout(qwen_rig.model, qwen_rig.clean, ("last", "image"), METRIC, window=1)
    linear = [n for n, block in enumerate(qwen_rig.model.layers) if "linear_attn" in vars(block)]
    assert result.windows == tuple((n,) for n in range(qwen_rig.model.num_layers) if n not in linear)
    ((where, reason),) = result.skipped.items()
    assert all(str(number) in where for number in (linear[0], linear[-1]))
    assert "recurrent" in reason
    assert "have no pattern" in repr(result)
    with pytest.raises(Unavailable, match="recurrent"):
        knockout(qwen_rig.model, qwen_rig.clean, ("last", "image"), METRIC, layers=[linear[0]])


def test_a_text_model_has_no_tower_to_cut():
    checkpoint = _built["llama", "sdpa"]
    ids = {"input_ids": checkpoint.inputs["input_ids"][1:]}
    with pytest.raises(Unavailable, match="has no tower"):
        knockout(checkpoint.model, ids, ("all", "all"), METRIC, stack="vision")
    assert knockout(checkpoint.model, ids, ("last", 3), METRIC).effects.abs().max() > 0


@pytest.mark.parametrize(
    ("edges", "options", "said"),
    [
        (("last", "image"), {"window": 9}, "a window of 9 blocks does not fit"),
        (("last", "image"), {"stack": "sound"}, "neither 'text' nor 'vision'"),
        (("last", "image"), {"layers": [9]}, "there is no block 9"),
        (("last", "image"), {"layers": []}, "`layers` is empty"),
        (("last", "nowhere"), {}, "names no positions"),
        ({}, {}, "a pair (queries, keys)"),
        ("last", {}, "a pair (queries, keys)"),
    ],
)
def test_what_cannot_be_cut_is_refused(rig, edges, options, said):
    with pytest.raises(InputError) as caught:
        knockout(rig.model, rig.clean, edges, METRIC, **options)
    assert said in str(caught.value)


def test_the_model_is_clean_afterwards_and_the_result_is_read_back(rig, tmp_path):
    pairs = {"a": ("last", "image"), "b": ("text", [5])}
    result = knockout(rig.model, rig.clean, pairs, kl_divergence(), window=1)
    assert result.plain == 0
    assert (result.effects >= -1e-6).all()
    with rig.model.trace(**rig.clean):
        logits = rig.model.logits.save()
    assert torch.equal(logits, rig.raw(**rig.clean).logits)
    result.save(tmp_path / "cut.safetensors")
    back = KnockoutResult.load(tmp_path / "cut.safetensors")
    assert torch.equal(back.raw, result.raw)
    for name in ("names", "windows", "skipped", "plain", "stack", "settings"):
        assert getattr(back, name) == getattr(result, name)
    assert repr(back) == repr(result)
    assert back.table().row_count == result.raw.numel()
    axes = back.plot().axes[0]
    curves = [line for line in axes.get_lines() if line.get_label() in ("a", "b")]
    assert [line.get_ydata().tolist() for line in curves] == [pytest.approx(row.tolist()) for row in result.effects]


@pytest.mark.trained
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_the_answer_travels_from_the_object_to_the_question(name):
    model, drops = model_of(name), []
    for seed in (0, 2, 3, 4):
        scene, _ = shapes.pair(seed, checkpoint=name, images=1)
        (answer,) = model.tokenizer.convert_tokens_to_ids([scene.answer])
        inside, outside = Inside(scene.changed), Inside(scene.changed, outside=True)
        pairs = {"object": ("text", inside), "others": ("text", outside), "last": ("last", inside)}
        shown = {"text": scene.prompt, "images": scene.images}
        result = knockout(model, shown, pairs, logit(answer), progress=False)
        drops.append(result.effects[:, 0])
    through, beside, last = torch.stack(drops).mean(0).tolist()
    assert through < -2
    assert abs(beside) < 1
    assert abs(last) < 1
