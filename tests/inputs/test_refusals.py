"""Inputs that no forward can take are refused with what to pass; unusual pictures work."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

import belvedere
from belvedere import InputError, StandardizedTransformer, Unavailable, UnsupportedFamily, shapes
from belvedere.testing import build

NAMES = ("shapes-llava", "shapes-qwen3_5")
_models = {}


@pytest.fixture(params=NAMES)
def shipped(request):
    if request.param not in _models:
        _models[request.param] = StandardizedTransformer(belvedere.checkpoint(request.param), dispatch=True)
    return _models[request.param]


@pytest.fixture
def scene(shipped):
    name = "shapes-llava" if shipped.family.wrapper == "llava" else "shapes-qwen3_5"
    return shapes.sample(7, checkpoint=name)


def answer(model, *given, **keywords):
    with model.trace(*given, **keywords):
        logits = model.logits.save()
    assert logits.isfinite().all()
    return logits


def refused(model, match, *given, **keywords):
    with pytest.raises(InputError, match=match), model.trace(*given, **keywords):
        model.logits.save()


# Pictures and prompts that do not fit


def test_fewer_pictures_than_placeholders(shipped, scene):
    doubled = scene.prompt.replace(shipped.processor.image_token, shipped.processor.image_token * 2)
    refused(
        shipped, r"the prompt has 2 placeholder\(s\) .*, and `images` has 1; match them", doubled, images=scene.images
    )


def test_more_pictures_than_placeholders(shipped, scene):
    refused(shipped, r"1 placeholder\(s\) .* and `images` has 2", scene.prompt, images=[*scene.images, *scene.images])


def test_a_picture_without_a_placeholder(shipped, scene):
    refused(shipped, "no placeholder in the prompt; write .* where each one goes", "what is it ?", images=scene.images)


def test_a_placeholder_without_a_picture(shipped, scene):
    refused(shipped, r"1 placeholder\(s\) .* and no picture; pass `images=", scene.prompt)


def test_a_picture_without_a_prompt(shipped, scene):
    refused(shipped, "pictures came without a prompt; pass a prompt", images=scene.images)


def test_pictures_both_in_the_messages_and_beside_them(shipped, scene):
    refused(shipped, "both inside the messages and as `images=`", scene.messages(), images=scene.images)


def test_a_prompt_given_twice(shipped, scene):
    refused(shipped, "both by position and as `text=`", scene.prompt, text=scene.prompt, images=scene.images)


def test_an_empty_prompt(shipped):
    refused(shipped, "the prompt is empty; pass some text", "")


def test_no_token_ids(shipped):
    refused(shipped, "the prompt is empty", input_ids=torch.zeros(1, 0, dtype=torch.long))


def test_a_prompt_cut_off_inside_a_picture(shipped, scene):
    encoding = dict(shipped.processor(text=[scene.prompt], images=scene.images, return_tensors="pt"))
    whole = int((encoding["input_ids"] == shipped.placeholder("image")).sum())
    start = int((encoding["input_ids"][0] == shipped.placeholder("image")).nonzero()[0])
    cut = {
        key: held[:, : start + 3] if key in ("input_ids", "attention_mask", "mm_token_type_ids") else held
        for key, held in encoding.items()
    }
    refused(shipped, rf"the prompt has 3 image token\(s\) and the picture\(s\) have {whole}", **cut)


def test_something_that_is_no_input(shipped):
    refused(shipped, "3.5 is no input of this model; pass a prompt", 3.5)


def test_a_mapping_without_tensors(shipped):
    refused(shipped, "a mapping without tensors is no encoding", {"question": "what is it ?"})


def test_an_encoding_without_ids(shipped):
    refused(
        shipped, "neither `input_ids` nor `inputs_embeds`; it has pixel_values", pixel_values=torch.zeros(1, 3, 8, 8)
    )


# Pictures that cannot be read


def test_a_truncated_file(shipped, scene, tmp_path):
    held = io.BytesIO()
    scene.image.save(held, "PNG")
    path = tmp_path / "cut.png"
    path.write_bytes(held.getvalue()[: len(held.getvalue()) // 2])
    refused(
        shipped, r"picture 0 \('.*cut.png'\) cannot be read: .*; pass a PIL image", scene.prompt, images=[str(path)]
    )


def test_a_file_that_is_no_picture(shipped, scene, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no picture")
    refused(shipped, "picture 0 .* cannot be read", scene.prompt, images=[path])


def test_a_file_that_is_not_there(shipped, scene):
    refused(shipped, "picture 0 .* cannot be read: .*No such file", scene.prompt, images=["nowhere.png"])


def test_an_object_that_is_no_picture(shipped, scene):
    refused(shipped, r"picture 0 \(7\) cannot be read", scene.prompt, images=[7])


def test_an_array_of_a_strange_shape(shipped, scene):
    refused(shipped, r"picture 0 has shape \(4,\); pass \[rows, columns, 3\]", scene.prompt, images=[np.zeros(4)])


# Pictures that are unusual and work


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "LA", "1"])
def test_a_picture_of_another_mode(shipped, scene, mode):
    base = scene.image if mode in ("CMYK", "P", "RGBA") else scene.image.convert("L").convert(mode)
    answer(shipped, scene.prompt, images=[base.convert(mode)])


def test_cmyk_and_rgba_answer_as_the_picture_itself(shipped, scene):
    plain = answer(shipped, scene.prompt, images=scene.images)
    assert torch.equal(answer(shipped, scene.prompt, images=[scene.image.convert("RGBA")]), plain)


def test_a_16_bit_picture_keeps_its_grey_and_is_not_clipped(shipped, scene):
    grey = scene.image.convert("L")
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    assert deep.mode == "I;16"
    assert torch.equal(answer(shipped, scene.prompt, images=[deep]), answer(shipped, scene.prompt, images=[grey]))


def test_a_picture_of_one_pixel(shipped, scene):
    answer(shipped, scene.prompt, images=[Image.new("RGB", (1, 1), "red")])


def test_a_picture_far_too_wide(shipped, scene):
    wide = Image.new("RGB", (5000, 3), "red")
    if shipped.family.wrapper == "llava":
        answer(shipped, scene.prompt, images=[wide])
    else:
        refused(shipped, "the processor refused this input: .*aspect ratio", scene.prompt, images=[wide])


@pytest.mark.parametrize("form", ["path", "string", "array", "floats", "channels first", "tensor"])
def test_every_form_of_a_picture_answers_alike(shipped, scene, form, tmp_path):
    path = tmp_path / "scene.png"
    scene.image.save(path)
    array = np.asarray(scene.image)
    given = {
        "path": path,
        "string": str(path),
        "array": array,
        "floats": array / 255,
        "channels first": array.transpose(2, 0, 1),
        "tensor": torch.from_numpy(array.copy()),
    }[form]
    assert torch.equal(
        answer(shipped, scene.prompt, images=[given]), answer(shipped, scene.prompt, images=scene.images)
    )


# Forms of input that answer alike


def test_prompt_messages_and_encoding_answer_alike(shipped, scene):
    encoding = shipped.processor(text=[scene.prompt], images=scene.images, return_tensors="pt")
    plain = shipped._module(**encoding).logits
    assert torch.equal(answer(shipped, scene.prompt, images=scene.images), plain)
    assert torch.equal(answer(shipped, scene.prompt, images=scene.image), plain)
    assert torch.equal(answer(shipped, text=scene.prompt, images=scene.images), plain)
    assert torch.equal(answer(shipped, scene.messages()), plain)
    assert torch.equal(answer(shipped, encoding), plain)
    assert torch.equal(answer(shipped, dict(encoding)), plain)
    assert torch.equal(answer(shipped, **encoding), plain)


def test_a_text_prompt_alone_is_the_plain_forward(shipped, scene):
    ids = shipped.tokenizer(scene.question, return_tensors="pt").input_ids
    assert torch.equal(answer(shipped, scene.question), answer(shipped, ids))
    assert torch.equal(answer(shipped, ids[0].tolist()), answer(shipped, ids))


def test_two_prompts_of_unlike_length_in_one_call(shipped, scene):
    longer = scene.prompt + " and the colour of the circle ?"
    logits = answer(shipped, [scene.prompt, longer], images=[scene.images, scene.images])
    alone = answer(shipped, scene.prompt, images=scene.images)
    torch.testing.assert_close(logits[:1, -alone.shape[1] :], alone, atol=1e-4, rtol=1e-4)


# Checkpoints that cannot be loaded


def test_a_folder_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="no config at '/nowhere/at/all'; pass a folder with a config"):
        StandardizedTransformer("/nowhere/at/all")


def test_a_folder_without_a_config(tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    with pytest.raises(FileNotFoundError, match=r"no config at .*it holds notes.txt"):
        StandardizedTransformer(str(tmp_path))


def test_a_config_file_of_a_type_that_transformers_does_not_know(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llava_of_tomorrow", "vision_config": {}}')
    match = r"no wrapper entry for model_type 'llava_of_tomorrow'; known: .*llava, "
    with pytest.raises(UnsupportedFamily, match=match):
        StandardizedTransformer(str(tmp_path))


def test_a_wrapper_that_transformers_cannot_load_for_text():
    with pytest.raises(ValueError, match="no text-only model from a llava checkpoint; load it with task='image-text"):
        StandardizedTransformer(belvedere.checkpoint("shapes-llava"), task="text-generation")


def test_a_wrapper_loaded_for_text_runs_as_a_text_model():
    model = StandardizedTransformer(belvedere.checkpoint("shapes-qwen3_5"), task="text-generation", dispatch=True)
    scene = shapes.sample(1, checkpoint="shapes-qwen3_5")
    with model.trace(scene.question):
        stream = model.layers[1].layer_output.save()
    assert stream.shape[-1] == model.hidden_size
    refused(model, "a picture cannot be shown to this model: task='text-generation' loads", "x", images=scene.images)


def test_a_name_that_is_no_shipped_checkpoint():
    with pytest.raises(ValueError, match="shapes-llava"):
        belvedere.checkpoint("shapes-gemma")


@pytest.mark.parametrize("part", ["text", "tower", "wrapper"])
def test_a_config_of_an_unknown_type_is_refused_before_any_weight_loads(part, monkeypatch):
    from transformers import AutoModelForImageTextToText, BertConfig, LlavaConfig
    from transformers.models.vit import ViTConfig

    from belvedere.testing.zoo.llava import llava
    from belvedere.testing.zoo.text import llama

    config = {
        "text": LlavaConfig(vision_config=llava().vision_config, text_config=BertConfig()),
        "tower": LlavaConfig(vision_config=ViTConfig(), text_config=llama()),
        "wrapper": llava(),
    }[part]
    if part == "wrapper":
        config.model_type = "llava_of_tomorrow"
    monkeypatch.setattr(AutoModelForImageTextToText, "from_config", lambda *_, **__: pytest.fail("weights were built"))
    unknown = {"text": "bert", "tower": "vit", "wrapper": "llava_of_tomorrow"}[part]
    with pytest.raises(
        UnsupportedFamily, match=rf"no {part} entry for model_type '{unknown}'; known: .*register\("
    ) as raised:
        StandardizedTransformer.from_config(config)
    assert raised.value.part == part
    assert raised.value.model_type == unknown
    assert raised.value.known


def test_an_unknown_type_loads_under_a_known_one():
    module = build("llava")
    module.config.text_config.model_type = "llama_of_tomorrow"
    with pytest.raises(UnsupportedFamily):
        StandardizedTransformer(module)
    model = StandardizedTransformer(module, family={"text": "llama"})
    assert model.layers[0].name == "layers[0]"


def test_errors_keep_their_parts_when_pickled():
    import pickle

    for error in (Unavailable("a.b", "cause; cure"), UnsupportedFamily("text", "bert", ["llama"])):
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)
        assert vars(again) == vars(error)


# Modules in memory


def test_a_module_without_a_processor_refuses_a_picture_and_takes_an_encoding(llava, qwen, scene):
    for checkpoint in (llava, qwen):
        refused(
            checkpoint.model,
            "loaded without a processor, so a picture cannot be encoded; pass `processor=`",
            "x",
            images=scene.images,
        )
        refused(checkpoint.model, "loaded without a processor, so text cannot be encoded; pass `processor=`", "x")
        refused(checkpoint.model, "loaded without a processor, so chat messages cannot be", scene.messages())
        assert torch.equal(answer(checkpoint.model, **checkpoint.inputs), checkpoint.logits)
        assert torch.equal(answer(checkpoint.model, checkpoint.inputs), checkpoint.logits)


def test_a_module_without_a_processor_cannot_run_a_pipeline(llava):
    with pytest.raises(ValueError, match="pipe\\(\\) needs a processor"):
        llava.model.pipe("x")


def test_a_module_in_memory_takes_pictures_with_a_processor(shipped, scene):
    from transformers import AutoModelForImageTextToText

    folder = belvedere.checkpoint("shapes-llava" if shipped.family.wrapper == "llava" else "shapes-qwen3_5")
    module = AutoModelForImageTextToText.from_pretrained(folder)
    model = StandardizedTransformer(module, processor=shipped.processor)
    assert torch.equal(
        answer(model, scene.prompt, images=scene.images), answer(shipped, scene.prompt, images=scene.images)
    )


def test_a_text_model_refuses_a_picture(scene):
    model = StandardizedTransformer(build("llama"))
    refused(
        model,
        "a picture cannot be shown to this model: llama is a text model and has no tower",
        "x",
        images=scene.images,
    )


def test_a_lazy_model_loads_its_weights_on_the_first_trace(shipped, scene):
    folder = belvedere.checkpoint("shapes-llava" if shipped.family.wrapper == "llava" else "shapes-qwen3_5")
    model = StandardizedTransformer(folder)
    assert next(model._module.parameters()).is_meta
    support, block = model.support(), model.layers[0]
    logits = answer(model, scene.prompt, images=scene.images)
    assert torch.equal(logits, answer(shipped, scene.prompt, images=scene.images))
    assert model.layers[0] is block
    assert model.support() == support == shipped.support()


def test_user_names_and_envoys_win(llava):
    from belvedere.components import Layer

    class Marked(Layer):
        pass

    model = StandardizedTransformer(
        build("llava"), rename={"mlp": "feed_forward"}, envoys={"model.language_model.layers.0": Marked}
    )
    assert type(model.layers[0]) is Marked
    assert type(model.layers[1]) is Layer
    assert model.layers[1].feed_forward is model.layers[1].mlp
    assert model.vision.layers[1].feed_forward is model.vision.layers[1].mlp


def test_an_unknown_layer(llava):
    with pytest.raises((AttributeError, IndexError, KeyError)):
        llava.model.layers[12]
    with pytest.raises((AttributeError, IndexError, KeyError)):
        llava.model.support(layer=12)
