"""Prompts with pictures, through each model's own processor, are the same as their encoding."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from truth import logits_of

from belvedere import InputError
from belvedere.testing import ROWS, tiny

MADE = {name: tiny(name) for name, row in ROWS.items() if row.processor is not None}
MADE |= {f"{name} {form}": replace(MADE[name], form=form) for name in MADE for form in ROWS[name].forms}


def refused(why):
    return pytest.raises(InputError, match=why) if why else nullcontext()


@pytest.fixture(params=list(MADE))
def small(request):
    return MADE[request.param]


def encoded(small, prompt=None, images=None):
    images = small.images if images is None else images
    made = small.processor(text=prompt or small.prompt, images=[images], return_tensors="pt")
    # A processor may round its pixels to a type that the tower's weights are not of.
    return dict(made.to(small.module.dtype))


def test_a_prompt_with_pictures_is_its_encoding(small):
    encoding = encoded(small)
    plain = logits_of(small.module(**encoding, **small.row.forward))
    with small.model.trace(small.prompt, images=small.images):
        mask = None if small.row.cross else small.model.vision.image_token_mask.save()
        features = small.model.vision.image_features.save()
        split = small.model.vision.image_features_per_image.save()
        first = small.model.layers[0].layer_input.save()
        logits = small.model.logits.save()
    assert torch.equal(logits, plain)
    assert small.row.cross or torch.equal(first[mask], features)
    assert len(split) == 2
    assert torch.equal(torch.cat(split), features.flatten(0, -2))
    with small.model.trace(**encoding):
        same = small.model.logits.save()
    assert torch.equal(same, plain)


def test_one_picture_and_five(small):
    for count in (1, 5):
        images = (small.images * 3)[:count]
        prompt = " and ".join([small.row.placeholder] * count) + " ?"
        plain = logits_of(small.module(**encoded(small, prompt, images), **small.row.forward))
        with small.model.trace(prompt, images=images):
            split = small.model.vision.image_features_per_image.save()
            logits = small.model.logits.save()
        assert len(split) == count
        assert torch.equal(logits, plain)


@pytest.mark.parametrize("side_by_side", [False, True])
def test_each_picture_has_the_features_that_it_has_alone(small, side_by_side):
    prompt = f"{small.row.placeholder * 2} ?" if side_by_side else small.prompt
    with small.model.trace(prompt, images=small.images):
        split = small.model.vision.image_features_per_image.save()
    for number, picture in enumerate(small.images):
        ids = encoded(small, f"{small.row.placeholder} ?", [picture])["input_ids"]
        with small.model.trace(f"{small.row.placeholder} ?", images=[picture]):
            alone = small.model.vision.image_features.save()
        if small.row.lone:
            assert split[number].shape != alone.shape
            continue
        assert small.row.cross or len(split[number]) == ids.eq(small.model.placeholder("image")).sum()
        torch.testing.assert_close(split[number], alone.flatten(0, -2), atol=1e-5, rtol=1e-4)


def answer(small, prompt, images):
    with small.model.trace(prompt, images=images):
        split = small.model.vision.image_features_per_image.save()
        logits = small.model.logits.save()
    return split, logits


def test_two_prompts_of_one_trace_are_each_what_they_are_alone(small):
    shown = [(f"what is {small.row.placeholder} ?", small.images[1:]), (small.prompt, small.images)]
    with refused(small.row.alone), small.model.trace() as tracer:
        with tracer.invoke(shown[0][0], images=shown[0][1]):
            one = small.model.vision.image_features_per_image.save()
            logits = small.model.logits.save()
        with tracer.invoke(shown[1][0], images=shown[1][1]):
            two = small.model.vision.image_features_per_image.save()
            others = small.model.logits.save()
    if small.row.alone:
        return
    for given, split, found in ((shown[0], one, logits), (shown[1], two, others)):
        truth, expected = answer(small, *given)
        torch.testing.assert_close(split, truth, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found[:, -expected.shape[1] :], expected, atol=1e-4, rtol=1e-4)


def test_a_prompt_without_a_picture_is_its_ids(small):
    ids = small.processor.tokenizer("what is this ?", return_tensors="pt").input_ids
    with refused(small.row.demands), small.model.trace("what is this ?"):
        given = small.model.input_ids.save()
        logits = small.model.logits.save()
    if small.row.demands:
        return
    assert torch.equal(given[:, -ids.shape[1] :], ids)
    assert torch.equal(logits, logits_of(small.module(given, **small.row.forward)))


def test_several_prompts_of_one_invoke_deal_out_the_pictures(small):
    prompts = [f"what is {small.row.placeholder} ?", small.prompt]
    images = [*small.images[1:], *small.images]
    with small.model.trace(prompts, images=images):
        split = small.model.vision.image_features_per_image.save()
        logits = small.model.logits.save()
    alone = [answer(small, prompts[0], images[:1]), answer(small, prompts[1], images[1:])]
    torch.testing.assert_close(split, [*alone[0][0], *alone[1][0]], atol=1e-5, rtol=1e-4)
    if small.row.alone:
        given = small.processor(text=prompts, images=[images[:1], images[1:]], padding=True, return_tensors="pt")
        given["position_ids"] = (given["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        assert torch.equal(logits, logits_of(small.module(**given)))
        return
    for row, (_, expected) in zip(logits, alone, strict=True):
        torch.testing.assert_close(row[-expected.shape[1] :], expected[0], atol=1e-4, rtol=1e-4)


def test_chat_messages_with_pictures_are_the_prompt_that_the_template_writes(small):
    parts = [{"type": "text", "text": "what is in "}, *({"type": "image", "image": one} for one in small.images)]
    messages = [{"role": "user", "content": parts}]
    with small.model.trace(messages):
        split = small.model.vision.image_features_per_image.save()
        ids = small.model.input_ids.save()
    assert len(split) == 2
    asked = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
    assert torch.equal(ids, small.processor.apply_chat_template(messages, **asked)["input_ids"])
    places = ids.eq(small.model.placeholder("image")).sum()
    assert places == (len(split) if small.row.cross else sum(map(len, split)))


def test_another_number_of_pictures_than_placeholders_is_refused_with_both(small):
    with pytest.raises(InputError, match=r"2 .*1|1 .*2"), small.model.trace(small.prompt, images=small.images[:1]):
        small.model.logits.save()


def test_a_picture_for_a_prompt_without_a_placeholder_is_refused(small):
    with pytest.raises(InputError, match="placeholder"), small.model.trace("what is this ?", images=small.images):
        small.model.logits.save()


def test_a_prompt_cut_off_inside_a_picture_is_refused_with_both_numbers(small):
    encoding = encoded(small)
    ids = encoding["input_ids"]
    last = int((ids[0] == small.model.placeholder("image")).nonzero()[-1])
    own = {key: held for key, held in encoding.items() if held.shape[:2] == ids.shape}
    cut = {**encoding, **{key: held[:, :last] for key, held in own.items()}}
    wanted = int((ids == small.model.placeholder("image")).sum())
    with pytest.raises(InputError, match=f"{wanted - 1} image token.*{wanted}"), small.model.trace(**cut):
        small.model.logits.save()


def test_a_picture_that_is_none_names_its_number(small):
    with pytest.raises(InputError, match="picture 1"), small.model.trace(small.prompt, images=[small.images[0], 3]):
        small.model.logits.save()
