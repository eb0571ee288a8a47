"""The lens, against the raw module's own norm and head on what raw hooks saw."""

import pytest
import torch
from PIL import Image
from raw import captured
from test_truth import model_of

from belvedere import InputError, shapes
from belvedere.experiments import Inside, LensResult, lens, tower_lens

CLOSE = {"atol": 1e-6, "rtol": 1e-5}


def image_tokens(rig):
    return (rig.clean["input_ids"][0] == 5).nonzero().flatten().tolist()


def by_hand(rig, stream):
    text = rig.raw.model.language_model
    return rig.raw.lm_head(text.norm(stream)).softmax(-1)


@pytest.mark.parametrize("value", ["layers.layer_input", "layers.layer_output"])
def test_a_position_reads_as_its_stream_through_the_norm_and_the_head(rig, value):
    result = lens(rig.model, rig.clean, value=value, watch=[9, 20], top=3)
    assert result.positions == tuple(image_tokens(rig))
    for row, layer in enumerate(result.layers):
        stream, _ = captured(rig.raw, rig.native(value, layer), rig.clean)
        chances = by_hand(rig, stream[0, list(result.positions)])
        best = chances.topk(3, -1)
        assert torch.equal(result.tokens[row], best.indices)
        torch.testing.assert_close(result.probabilities[row], best.values.float(), **CLOSE)
        torch.testing.assert_close(result.watched[row], chances[:, [9, 20]].float(), **CLOSE)


def test_the_last_row_is_the_model_s_own(rig):
    result = lens(rig.model, rig.clean, positions="all", top=64)
    own = rig.raw(**rig.clean).logits[0].float().softmax(-1)
    torch.testing.assert_close(result.probabilities[-1], own.sort(-1, descending=True).values, **CLOSE)
    torch.testing.assert_close(own.gather(-1, result.tokens[-1]), result.probabilities[-1], **CLOSE)


def test_the_whole_tower_s_features_are_the_model_s(rig):
    result = tower_lens(rig.model, rig.clean, watch=[9])
    entering, _ = captured(rig.raw, ("model.language_model.layers.0", "input"), rig.clean)
    chances = by_hand(rig, entering[0, image_tokens(rig)])
    torch.testing.assert_close(result.watched[-1, :, 0], chances[:, 9].float(), **CLOSE)
    through = tower_lens(rig.model, rig.clean, watch=[9], through=1)
    leaving, _ = captured(rig.raw, ("model.language_model.layers.1", "output"), rig.clean)
    chances = by_hand(rig, leaving[0, image_tokens(rig)])
    torch.testing.assert_close(through.watched[-1, :, 0], chances[:, 9].float(), **CLOSE)


def test_an_early_end_of_the_tower_is_its_stream_through_the_rest(llava_rig):
    result = tower_lens(llava_rig.model, llava_rig.clean, watch=[9], layers=[0])
    assert tower_lens(llava_rig.model, llava_rig.clean).layers == (0, 1)  # LLaVA reads the last block but one
    stream, _ = captured(llava_rig.raw, ("model.vision_tower.encoder.layers.0", "output"), llava_rig.clean)
    features = llava_rig.raw.model.multi_modal_projector(stream[:, 1:]).flatten(0, 1)
    torch.testing.assert_close(result.watched[0, :, 0], by_hand(llava_rig, features)[:, 9].float(), **CLOSE)


def test_an_early_end_of_a_packed_tower(qwen_rig):
    result = tower_lens(qwen_rig.model, qwen_rig.clean, watch=[9], layers=[0])
    stream, _ = captured(qwen_rig.raw, ("model.visual.blocks.0", "output"), qwen_rig.clean)
    features = qwen_rig.raw.model.visual.merger(stream)
    torch.testing.assert_close(result.watched[0, :, 0], by_hand(qwen_rig, features)[:, 9].float(), **CLOSE)


def test_reading_leaves_the_model_as_it_was(rig):
    tower_lens(rig.model, rig.clean, through=0)
    with rig.model.trace(**rig.clean):
        logits = rig.model.logits.save()
    assert torch.equal(logits, rig.raw(**rig.clean).logits)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"value": "vision.layers.layer_output"}, "read by `tower_lens`"),
        ({"positions": "nowhere"}, "names no positions; known: all, image, last, text"),
        ({"positions": 99}, "there is no position 99"),
        ({"layers": [9]}, "there is no block 9"),
        ({"top": 0}, "at least one word is kept"),
        ({"watch": [64]}, "there is no token 64; the vocabulary has 64"),
    ],
)
def test_what_cannot_be_read_is_refused(rig, options, said):
    with pytest.raises(InputError) as caught:
        lens(rig.model, rig.clean, **options)
    assert said in str(caught.value)


def test_a_block_that_the_tower_lacks_is_refused(rig):
    with pytest.raises(InputError, match="there is no block 7; the tower has blocks 0 to"):
        tower_lens(rig.model, rig.clean, layers=[7])


def test_a_lens_is_read_back_whole(rig, tmp_path):
    result = lens(rig.model, rig.clean, watch=[9], layers=[0, 2])
    result.save(tmp_path / "lens.safetensors")
    back = LensResult.load(tmp_path / "lens.safetensors")
    for name in ("tokens", "probabilities", "watched", "images"):
        assert torch.equal(getattr(back, name), getattr(result, name))
    for name in ("watch", "words", "layers", "positions", "value", "settings"):
        assert getattr(back, name) == getattr(result, name)
    assert repr(back) == f"LensResult(layers.layer_output: tokens [layer 2, position {len(result.positions)}, top 5])"
    assert back._repr_html_().count("<tr>") == 3
    assert back.reading(2)[0] == f"#{int(result.tokens[1, 0, 0])}"


def test_without_sizes_there_are_no_words_over_the_picture(llava_rig):
    result = lens(llava_rig.model, llava_rig.clean, layers=[0])
    assert result.boxes.isnan().all()
    assert result.images.tolist() == [0] * 16 + [1] * 16
    with pytest.raises(InputError, match="none of the positions has a known box in a picture"):
        result.overlay(Image.new("RGB", (32, 32)))


@pytest.mark.trained
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_the_words_stand_in_their_tokens_boxes(name):
    model = model_of(name)
    scene, _ = shapes.pair(0, checkpoint=name, images=1)
    (answer,) = model.tokenizer.convert_tokens_to_ids([scene.answer])
    shown = {"text": scene.prompt, "images": scene.images}
    result = lens(model, shown, positions=Inside(scene.changed), layers=[0, 3], watch=[answer])
    assert result.positions == tuple(
        place
        for row, place in enumerate(lens(model, shown, top=1).positions)
        if row in scene.tokens_under(scene.changed)
    )
    figure = result.overlay(scene.image, token=answer, outline=scene.changed)
    titled = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title().partition("\n")[0] for axes in titled] == ["the picture", "block 0", "block 3"]
    for axes, layer in zip(titled[1:], result.layers, strict=True):
        written = [(text.get_text(), text.get_position()) for text in axes.texts]
        middles = [((left + right) / 2, (top + bottom) / 2) for left, top, right, bottom in result.boxes.tolist()]
        assert [place for _, place in written] == middles
        read = [word.strip() or repr(word)[1:-1] for word in result.reading(layer)]
        assert [text.replace("\n", "") for text, _ in written] == read
        (cells,) = axes.collections
        assert cells.get_array().tolist() == pytest.approx(result.watched[result.layers.index(layer), :, 0].tolist())
    assert result.plot(answer).axes
    with pytest.raises(InputError, match="was not watched"):
        result.plot(answer + 1)
