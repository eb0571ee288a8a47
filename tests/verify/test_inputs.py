"""What a model is verified on, in which state it is left, and what is refused."""

import numpy as np
import pytest
import torch
from conftest import _built
from truth import logits_of

import belvedere
from belvedere import InputError, StandardizedTransformer
from belvedere.testing import ROWS, Tiny, build, tiny
from belvedere.verifying.prompt import longer, picture, prepared

FORMS = [(name, form) for name, row in ROWS.items() if row.processor for form in ("", *row.forms)]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_processor_is_given_a_picture_that_it_takes(name, form):
    own = Tiny(name, build(name), form)
    encoding, shown = prepared(own.model, None, {})
    assert shown.startswith("a synthetic picture of ")
    assert own.model.pictures(encoding).count == 1
    beside = longer(own.model, encoding)
    ids, more = encoding["input_ids"], beside["input_ids"]
    assert torch.equal(more[:, : ids.shape[1]], ids)
    assert more.shape[1] == ids.shape[1] + 3
    logits = logits_of(own.module(**{**own.row.forward, **beside}))
    assert logits.shape[:2] == more.shape
    assert logits.isfinite().all()


def test_the_picture_is_one_that_shows_something_and_is_the_same_again():
    made = picture(tiny("qwen3_5").model)
    assert made.tobytes() == picture(tiny("qwen3_5").model).tobytes()
    assert made.getpixel((30, 30)) == (220, 40, 40)
    assert len(np.unique(np.asarray(made), axis=0)) > 10


@pytest.mark.parametrize("name", ["llava_next", "idefics3", "mllama", "gemma3", "kimi_k25", "llama4_tiles", "mistral3"])
def test_tiles_rows_and_stacks_by_the_models_own_processor(name):
    report = tiny(name).model.verify()
    assert report.passed, [one.lines for one in report.failed]


@pytest.mark.parametrize("name", ["qwen3_vl", "gemma4"])
def test_a_video_is_an_input_too_and_clauses_of_pictures_do_not_apply(name):
    report = _built[name, "sdpa"].model.verify(**ROWS[name].video())
    assert report.passed, [one.lines for one in report.failed]
    assert report.clauses[0].status == "does not apply"
    assert "the input shows no picture" in report.clauses[0].checked
    assert "can show pictures but not videos" in " ".join(report.clauses[7].lines)


@pytest.mark.parametrize("name", ["llava", "mllama", "qwen3_vl"])
def test_a_prompt_without_a_picture(name):
    report = _built[name, "sdpa"].model.verify(input_ids=torch.tensor([[9, 10, 11, 12, 13]]))
    assert report.passed, [one.lines for one in report.failed]
    assert report.clauses[0].status == "does not apply"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["llava", "qwen3_5", "gemma3"])
def test_other_number_types_have_tolerances_of_their_own(name, dtype, attention):
    model = StandardizedTransformer(build(name, attention).to(dtype))
    report = model.verify(**ROWS[name].inputs())
    assert report.passed, [one.lines for one in report.failed]
    assert report.settings["number type"] == str(dtype).removeprefix("torch.")
    assert report.settings["attention"] == attention
    noted = " ".join(report.clauses[7].lines)
    assert ("the attention is eager already" in noted) is (attention == "eager")


def test_double_precision_is_held_to_its_own_rounding():
    model = StandardizedTransformer(build("llava").double())
    report = model.verify(**ROWS["llava"].solo(0))
    assert report.passed, [one.lines for one in report.failed]


def test_an_answer_that_padding_makes_no_number_fails_the_last_clause():
    """transformers' eager mask is minus infinity in double precision, and a position of padding attends to nothing."""
    model = StandardizedTransformer(build("llava", "eager").double())
    report = model.verify(**ROWS["llava"].solo(0))
    assert [one.number for one in report.failed] == [8]
    assert "logits: beside another prompt it is something else, apart by inf" in str(report.failed[0].differences[-1])


def test_a_residual_too_many_shows_in_half_precision_too():
    module = build("llava").bfloat16()
    block = module.get_submodule("model.language_model.layers.2")
    own = block.forward
    block.forward = lambda held, *args, **kwargs: own(held, *args, **kwargs) + 0.1 * held
    report = StandardizedTransformer(module).verify(**ROWS["llava"].inputs())
    assert [(one.number, [found.where for found in one.differences]) for one in report.failed] == [(2, ["layers[2]"])]


def test_a_model_in_training_mode_is_verified_without_dropout_and_left_in_training():
    module = build("llava", text_config={"attention_dropout": 0.5})
    model = StandardizedTransformer(module)
    module.train()
    module.get_submodule("model.vision_tower").eval()
    modes = [part.training for part in module.modules()]
    with torch.enable_grad():
        report = model.verify(**ROWS["llava"].inputs())
        assert torch.is_grad_enabled()
    assert report.passed, [one.lines for one in report.failed]
    assert [part.training for part in module.modules()] == modes
    assert all(one.grad is None for one in module.parameters())


@pytest.mark.parametrize("at", [1, 6, 12, 30])
def test_an_interrupt_leaves_the_model_as_it_was(at):
    from transformers.modeling_utils import AttentionInterface

    module = build("llava")
    model, inputs, own = StandardizedTransformer(module), ROWS["llava"].inputs(), AttentionInterface.get_interface
    with model.trace(**inputs):
        model.logits.save()
    module.train()
    calls = []

    def interrupt(*_):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt

    handle = module.get_submodule("model.language_model.layers.1").register_forward_hook(interrupt)
    before = [(len(part._forward_hooks), len(part._forward_pre_hooks)) for part in module.modules()]
    with pytest.raises(KeyboardInterrupt):
        model.verify(**inputs)
    assert len(calls) == at
    assert [(len(part._forward_hooks), len(part._forward_pre_hooks)) for part in module.modules()] == before
    assert AttentionInterface.get_interface is own
    assert all(part.training for part in module.modules())
    assert module.config._attn_implementation == "sdpa"
    handle.remove()
    assert model.verify(**inputs).passed


def test_what_cannot_be_verified_is_refused_with_what_to_pass():
    with pytest.raises(InputError, match=r"without a processor, .* pass an input of your own: `verify\(text="):
        _built["llava", "sdpa"].model.verify()
    with pytest.raises(InputError, match="this model has no weights"):
        StandardizedTransformer.from_config(ROWS["llava"].config()).verify(**ROWS["llava"].inputs())
    with pytest.raises(InputError, match="no token ids"):
        _built["llama", "sdpa"].model.verify(inputs_embeds=torch.zeros(1, 4, 32))
    with pytest.raises(InputError, match="the model's own forward refuses this input: IndexError"):
        _built["llava", "sdpa"].model.verify(input_ids=torch.tensor([[9, 10, 9999]]))


@pytest.mark.trained
def test_a_text_model_is_verified_on_a_sentence():
    model = StandardizedTransformer(belvedere.checkpoint("shapes-qwen3_5"), task="text-generation", dispatch=True)
    report = model.verify()
    assert [one.status for one in report.clauses] == ["does not apply", *["pass"] * 7]
    assert "the text 'The quick brown fox" in report.settings["input"]


@pytest.mark.trained
def test_weights_that_are_not_loaded_yet_are():
    model = StandardizedTransformer(belvedere.checkpoint("shapes-llava"))
    assert model.verify().passed


def test_a_deep_stack_is_written_at_the_first_the_middle_and_the_last_block_of_each_kind():
    module = build(
        "qwen3_5", text_config={"num_hidden_layers": 12, "layer_types": ["linear_attention", "full_attention"] * 6}
    )
    model = StandardizedTransformer(module)
    report = model.verify(**ROWS["qwen3_5"].solo(1))
    assert report.passed, [one.lines for one in report.failed]
    assert "on vision.layers[0-2] and layers[0-1, 6-7, 10-11]" in report.clauses[3].checked
    assert "layers[0-11]" in report.clauses[1].checked


def test_a_report_shows_itself():
    report = tiny("llava").model.verify()
    assert repr(report) == "Report(LlavaForConditionalGeneration: 8 of 8 clauses hold)"
    assert report._repr_html_().count("<tr>") == 9
    assert report.table().row_count == 8
    assert report.as_dict()["clauses"][0]["status"] == "pass"


def test_a_report_says_which_entries_were_asked_for():
    model = StandardizedTransformer(build("llava"), family={"text": "qwen2"})
    report = model.verify(**ROWS["llava"].solo(0))
    assert "text qwen2 (asked for; the config says llama)" in report.settings["family"]
