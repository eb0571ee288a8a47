"""Names that are nearly right, short and long looks at a model, and a normal path without a word on standard error."""

import pytest
import torch

import belvedere
from belvedere import InputError, StandardizedTransformer, Unavailable
from belvedere.experiments import patch
from belvedere.experiments.metrics import logit
from belvedere.spelling import did_you_mean
from belvedere.testing import build

NEARLY = {
    "layrs": "did you mean 'layers'?",
    "visoin": "did you mean 'vision'?",
    "projecter": "did you mean 'projector'?",
    "hiden_size": "did you mean 'hidden_size'?",
    "suport": "did you mean 'support'?",
    "logit": "did you mean 'logits'?",
    "layer_output": "it is a value of vision.layers[i] and layers[i]",
    "attention_queris": "did you mean 'layers[i].self_attn.attention_queries'?",
    "vision.pach_size": "did you mean 'patch_size'?",
    "vision.image_feature": "did you mean 'image_features'?",
    "vision.logits": "it is a value of the model",
    "vision.layers.layer_output": "it is a value of vision.layers[i]",
    "vision.layers.layer_outptu": "did you mean 'layer_output'?",
    "layers.mlp_output": "it is a value of layers[i].mlp",
    "layers.0.layer_outptu": "did you mean 'layer_output'?",
    "layers.0.self_atn": "did you mean 'self_attn'?",
    "layers.0.mlp.mlp_outpt": "did you mean 'mlp_output'?",
    "layers.0.self_attn.attention_query": "did you mean 'attention_queries'?",
    "layers.0.self_attn.layer_output": "it is a value of layers[0]",
    "vision.layers.0.attention_keys": "it is a value of vision.layers[0].self_attn",
}


@pytest.fixture(scope="module")
def llava():
    return StandardizedTransformer(build("llava"))


def reached(model, path):
    for name in path.split("."):
        model = model[int(name)] if name.isdigit() else getattr(model, name)
    return model


@pytest.mark.parametrize("path", NEARLY)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(llava, path):
    with pytest.raises(AttributeError) as missing:
        reached(llava, path)
    assert str(missing.value).endswith(f"; {NEARLY[path]}")


@pytest.mark.parametrize("path", [path for path in NEARLY if "." in path or path not in {"layer_output", "suport"}])
def test_a_write_to_a_name_that_is_nearly_right_is_refused_with_the_right_one(llava, path):
    """Else it would set an attribute, and nothing would be written."""
    above, _, name = path.rpartition(".")
    host = reached(llava, above) if above else llava
    with pytest.raises(AttributeError, match="to write; ") as refused:
        with llava.trace(**inputs()):
            setattr(host, name, 0)
    assert NEARLY[path] in str(refused.value)
    assert name not in vars(host)


def inputs():
    return belvedere.testing.ROWS["llava"].inputs()


def test_a_name_that_is_like_none_gets_no_suggestion(llava):
    with pytest.raises(AttributeError, match=r"^layers\[0\].mlp has no 'telescope'$"):
        llava.layers[0].mlp.telescope  # noqa: B018


def test_native_names_and_the_module_s_own_attributes_keep_working(llava):
    assert llava.model.language_model.layers[0].mlp.gate_proj.weight.shape == (48, 32)
    assert llava.layers[0].mlp.gate_proj is llava.model.language_model.layers[0].mlp.gate_proj
    assert len(llava.layers) == 3
    assert llava.layers[-1] is llava.layers[2]
    assert [block.number for block in llava.layers] == [0, 1, 2]
    assert [block.number for block in llava.layers[1:]] == [1, 2]
    assert not llava.training
    with llava.trace(**inputs()):
        native = llava.model.language_model.layers[1].output.save()
    with llava.trace(**inputs()):
        standard = llava.layers[1].layer_output.save()
    assert torch.equal(native[0] if isinstance(native, tuple) else native, standard)


def test_a_tower_that_is_not_there_takes_no_write():
    alone = StandardizedTransformer(build("llama"))
    with pytest.raises(Unavailable, match=r"vision.image_features is not available: .*has no tower"):
        alone.vision.image_features = torch.zeros(1)
    assert "image_features" not in vars(alone.vision)


def test_an_axis_that_is_nearly_right_is_answered_with_the_right_one(llava):
    with pytest.raises(ValueError, match="no layout has an axis 'hiden'; did you mean 'hidden'"):
        llava.axis_size("hiden")
    with pytest.raises(ValueError, match="the size of axis 'patches' is not fixed by the checkpoint"):
        llava.axis_size("patches")


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("layers.layer_outptu", "layer_output"),
        ("layer.layer_output", "layers.layer_output"),
        ("vision.layer.layer_output", "vision.layers.layer_output"),
        ("vision.layers.mlp_outpt", "mlp_output"),
        ("vision.image_feature", "vision.image_features"),
    ],
)
def test_an_experiment_s_path_that_is_nearly_right_is_answered_with_the_right_one(llava, path, right):
    with pytest.raises(InputError, match=f"did you mean '{right}'"):
        patch(llava, inputs(), inputs(), path, logit(1))


def test_a_checkpoint_a_kind_and_a_type_that_are_nearly_right_are_answered_with_the_right_one():
    with pytest.raises(ValueError, match="did you mean 'shapes-llava'"):
        belvedere.checkpoint("shapes-lava")
    with pytest.raises(ValueError, match="did you mean 'color_of_shape'"):
        belvedere.shapes.sample(0, kind="colour_of_shape")
    with pytest.raises(ValueError, match="did you mean 'qwen3_vl'"):
        belvedere.testing.tiny("qwen3vl")
    with pytest.raises(belvedere.UnsupportedFamily, match=r"did you mean 'qwen3_5'\? Register one"):
        StandardizedTransformer.from_config(build("qwen3_5").config, family={"wrapper": "qwen_3_5"})


def test_the_first_of_equally_near_names_is_meant():
    assert did_you_mean("abcx", ["abcd", "abce"]) == "; did you mean 'abcd'?"
    assert did_you_mean("layer", []) == ""
