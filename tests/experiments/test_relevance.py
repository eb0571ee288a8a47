"""Relevance, against autograd and patterns on raw modules."""

import pytest
import torch
from conftest import _built
from test_truth import model_of

from belvedere import InputError, Unavailable, shapes
from belvedere.experiments import RelevanceResult, logit_difference, rank, relevance
from belvedere.testing import build

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


def followed(encoding, tokens):
    more = {"input_ids": torch.tensor([tokens]), "attention_mask": torch.ones(1, len(tokens), dtype=torch.long)}
    if "mm_token_type_ids" in encoding:
        more["mm_token_type_ids"] = torch.zeros(1, len(tokens), dtype=torch.int)
    return {**encoding, **{key: torch.cat([encoding[key], held], 1) for key, held in more.items() if tokens}}


def raw_run(raw, encoding, blocks="model.language_model.layers"):
    """A leaf in the place of what enters the first block, the patterns that raw eager attentions return, and logits."""
    leaves, patterns, handles = [], [], []

    def enter(_, args, kwargs):
        leaves.append(args[0].detach().clone().requires_grad_())
        return (leaves[0], *args[1:]), kwargs

    def keep(_, args, output):
        patterns.append(output[1])

    stack = raw.get_submodule(blocks)
    handles.append(stack[0].register_forward_pre_hook(enter, with_kwargs=True))
    handles += [block.self_attn.register_forward_hook(keep) for block in stack if hasattr(block, "self_attn")]
    with torch.enable_grad():
        logits = raw(**encoding).logits[0]
    for handle in handles:
        handle.remove()
    return leaves[0], patterns, logits


@torch.enable_grad()
def by_gradient(raw, encoding, asked):
    leaf, _, logits = raw_run(raw, encoding)
    rows = []
    for place, token in asked:
        (gradient,) = torch.autograd.grad(logits[place, token], leaf, retain_graph=True)
        rows.append((gradient * leaf)[0].detach().sum(-1).float())
    return torch.stack(rows)


def test_gradient_times_input_is_autograd_s_at_the_first_block(rig):
    result = relevance(rig.model, rig.clean, answer=9)
    last = rig.clean["input_ids"].shape[1] - 1
    torch.testing.assert_close(result.relevance, by_gradient(rig.raw, rig.clean, [(last, 9)]), **CLOSE)
    assert result.tokens == (9,)


def test_each_token_of_an_answer_is_explained_from_where_it_is_written(rig):
    result = relevance(rig.model, rig.clean, answer=[9, 20, 13])
    last, encoding = rig.clean["input_ids"].shape[1] - 1, followed(rig.clean, [9, 20])
    expected = by_gradient(rig.raw, encoding, [(last, 9), (last + 1, 20), (last + 2, 13)])
    torch.testing.assert_close(result.relevance, expected, **CLOSE)
    assert result.relevance[0, last + 1 :].abs().max() == 0  # a token that is not there yet
    assert result.ids.tolist() == [*rig.clean["input_ids"][0].tolist(), 9, 20]
    assert result.images[last + 1 :].tolist() == [-1, -1]


def test_without_an_answer_it_is_what_the_model_writes(rig):
    result = relevance(rig.model, rig.clean, max_new_tokens=3)
    out = rig.raw.generate(**rig.clean, max_new_tokens=3, do_sample=False)[0, rig.clean["input_ids"].shape[1] :]
    assert list(result.tokens) == out.tolist()[: len(result.tokens)]


def test_padding_on_the_right_stays_behind_the_answer(llava_rig):
    padded = {**llava_rig.clean}
    for key, fill in (("input_ids", 0), ("attention_mask", 0)):
        padded[key] = torch.nn.functional.pad(padded[key], (0, 3), value=fill)
    result = relevance(llava_rig.model, padded, answer=[9, 20])
    plain = relevance(llava_rig.model, llava_rig.clean, answer=[9, 20])
    torch.testing.assert_close(result.relevance[:, : plain.relevance.shape[1]], plain.relevance, **CLOSE)


def test_a_rollout_is_the_product_of_half_identities(llava_rig):
    result = relevance(llava_rig.model, llava_rig.clean, method="rollout", answer=[9, 20])
    raw = build("llava", "eager").double()
    _, patterns, _ = raw_run(raw, followed(llava_rig.clean, [9]))
    flow = same = torch.eye(patterns[0].shape[-1]).double()
    for pattern in patterns:
        flow = (0.5 * pattern[0].mean(0) + 0.5 * same) @ flow
    torch.testing.assert_close(result.relevance, flow[-2:].detach().float(), **CLOSE)
    torch.testing.assert_close(result.relevance.sum(1), torch.ones(2), **CLOSE)


def test_a_weighted_rollout_is_chefer_s_rule(llava_rig):
    result = relevance(llava_rig.model, llava_rig.clean, method="weighted", answer=[9, 20])
    raw = build("llava", "eager").double()
    _, patterns, logits = raw_run(raw, followed(llava_rig.clean, [9]))
    for row, (place, token) in enumerate(((-2, 9), (-1, 20))):
        with torch.enable_grad():
            score = logits[place, token]
        gradients = torch.autograd.grad(score, patterns, retain_graph=True)
        flow = same = torch.eye(patterns[0].shape[-1]).double()
        for pattern, gradient in zip(patterns, gradients, strict=True):
            flow = flow + (gradient[0] * pattern[0]).clamp(min=0).mean(0).detach() @ flow
        torch.testing.assert_close(result.relevance[row], (flow - same)[place].float(), **CLOSE)
    assert result.relevance.abs().max() > 0


def test_a_metric_is_explained_in_the_place_of_the_logit(llava_rig):
    both = relevance(llava_rig.model, llava_rig.clean, answer=9, metric=logit_difference(9, 20))
    one, other = (relevance(llava_rig.model, llava_rig.clean, answer=token) for token in (9, 20))
    torch.testing.assert_close(both.relevance, one.relevance - other.relevance, **CLOSE)
    with pytest.raises(InputError, match="has no gradient"):
        relevance(llava_rig.model, llava_rig.clean, answer=9, metric=rank(9))


def test_a_rollout_through_recurrent_blocks_says_why_not(qwen_rig):
    for method in ("rollout", "weighted"):
        with pytest.raises(Unavailable, match=r"have none .*recurrent.*; use method='gradient'"):
            relevance(qwen_rig.model, qwen_rig.clean, method=method, answer=9)


@pytest.mark.parametrize("method", ["gradient", "rollout", "weighted"])
def test_where_a_picture_attends_both_ways(method):
    checkpoint = _built["gemma3", "sdpa"]
    encoding = checkpoint.row.solo(0)
    result = relevance(checkpoint.model, encoding, method=method, answer=9)
    if method == "gradient":
        last = encoding["input_ids"].shape[1] - 1
        expected = by_gradient(checkpoint.raw, encoding, [(last, 9)])
        torch.testing.assert_close(result.relevance, expected, atol=1e-4, rtol=1e-3)
    assert torch.isfinite(result.relevance).all()


def test_an_answer_that_the_prompt_attends_to_is_refused():
    checkpoint = _built["paligemma2", "sdpa"]
    encoding = checkpoint.row.solo(0)
    encoding["token_type_ids"] = torch.zeros_like(encoding["token_type_ids"])
    with pytest.raises(InputError, match="attends to what stands behind it"):
        relevance(checkpoint.model, encoding, answer=[9, 20])
    assert relevance(checkpoint.model, encoding, answer=9).tokens == (9,)


def test_what_else_enters_is_named():
    checkpoint = _built["qwen3_vl", "sdpa"]
    result = relevance(checkpoint.model, checkpoint.row.solo(0), answer=9)
    assert result.besides == tuple(f"layers[{n}].deepstack_output" for n in range(len(result.besides)))
    assert result.besides
    assert "the picture also enters at layers[0].deepstack_output" in repr(result)


def test_a_token_s_relevance_is_shared_by_its_patches(rig):
    result = relevance(rig.model, rig.clean, answer=9)
    on_patches, on_tokens = result.on_patches(), result.on_tokens()
    assert on_tokens.shape[1] == int((rig.clean["input_ids"] == 5).sum())
    torch.testing.assert_close(on_patches.sum(), on_tokens.sum(), **CLOSE)
    if rig.name == "llava":
        assert on_patches[0, [0, 17]].tolist() == [0, 0]  # CLS goes into no token
        torch.testing.assert_close(on_patches[0, 1:17], on_tokens[0, :16])
    else:
        torch.testing.assert_close(on_patches[0].view(-1, 4).sum(1), on_tokens[0])
    torch.testing.assert_close(
        result.share()[0], result.on_tokens().abs().sum() / result.relevance.abs().sum(), **CLOSE
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "magic"}, "method='magic' is none; known: gradient, rollout, weighted"),
        ({"answer": 64}, "there is no token 64; the vocabulary has 64"),
        ({"answer": []}, "the answer has no tokens"),
    ],
)
def test_what_cannot_be_asked_is_refused(rig, options, said):
    with pytest.raises(InputError) as caught:
        relevance(rig.model, rig.clean, **options)
    assert said in str(caught.value)


def test_the_model_is_clean_afterwards_and_the_result_is_read_back(rig, tmp_path):
    result = relevance(rig.model, rig.clean, answer=[9, 20])
    assert not result.relevance.requires_grad
    assert all(held.grad is None for held in rig.model._module.parameters())
    with rig.model.trace(**rig.clean):
        logits = rig.model.logits.save()
    assert torch.equal(logits, rig.raw(**rig.clean).logits)
    result.save(tmp_path / "relevance.safetensors")
    back = RelevanceResult.load(tmp_path / "relevance.safetensors")
    assert repr(back) == repr(result)
    assert torch.equal(back.on_patches(), result.on_patches())
    assert back.table().row_count == 2
    assert back._repr_html_().count("<tr>") == 3
    assert back.plot().axes[0].get_ylabel() == "token"


@pytest.mark.trained
@pytest.mark.parametrize(
    ("name", "method", "least"),
    [("shapes-llava", "gradient", 0.8), ("shapes-llava", "weighted", 0.9), ("shapes-qwen3_5", "gradient", 0.9)],
)
def test_the_object_s_tokens_come_first(name, method, least):
    model, areas = model_of(name), []
    for seed in range(6):
        scene, other = shapes.pair(seed, checkpoint=name, images=1)
        answer, wrong = model.tokenizer.convert_tokens_to_ids([scene.answer, other.answer])
        shown = {"text": scene.prompt, "images": scene.images}
        result = relevance(model, shown, method=method, metric=logit_difference(answer, wrong))
        assert result.tokens == (answer,)
        scores = result.on_tokens()[0].abs()
        right = torch.zeros(len(scores), dtype=torch.bool)
        right[scene.tokens_under(scene.changed)] = True
        areas.append((scores[right][:, None] > scores[~right][None]).double().mean())
    assert torch.stack(areas).mean() > least
    figure = result.overlay(scene.image, outline=scene.changed)
    _, panel = [axes for axes in figure.axes if axes.get_title()]
    assert panel.get_title().startswith(repr(scene.answer))
    (cells,) = panel.collections
    drawn = torch.as_tensor(cells.get_array().data, dtype=torch.float32)
    torch.testing.assert_close(drawn, result.on_tokens()[0])
    assert result.overlay(scene.image, patches=True).axes
    # A rollout is of no score, and does not say that it is.
    assert ("logit difference" in figure._suptitle.get_text().replace("\n", " ")) is (method != "rollout")
