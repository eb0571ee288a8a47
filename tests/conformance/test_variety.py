"""The contract under other inputs, precisions and kernels: what is read is the model's own, whatever is asked of it."""

import pytest
import torch
from truth import hooked
from walk import available, path

from belvedere import StandardizedTransformer
from belvedere.testing import ROWS, build

IMAGE = 5


def joined(*encodings):
    """Several prompts as one: their tokens one after the other, and all their pictures."""
    length = [encoding["input_ids"].shape[1] for encoding in encodings]
    made = {}
    for key, held in encodings[0].items():
        per_token = held.shape[:2] == (1, length[0])
        made[key] = torch.cat([encoding[key] for encoding in encodings], dim=1 if per_token else 0)
    return made


def right_padded(inputs):
    """The batch with each row's padding behind its text."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    order = mask.argsort(dim=1, descending=True, stable=True)
    per_token = {key for key, held in inputs.items() if held.shape[:2] == ids.shape}
    return {key: held.gather(1, order) if key in per_token else held for key, held in inputs.items()}


def one_picture(row):
    return row.solo(row.prompts.index(1))


def five_pictures(row):
    fewest = row.prompts.index(1)
    return joined(*[row.solo(0)] * (2 if row.prompts[0] == 2 else 5), *[row.solo(fewest)] * (row.prompts[0] == 2))


INPUTS = {
    "one picture": one_picture,
    "five pictures": five_pictures,
    "padding on the right": lambda row: right_padded(row.inputs()),
}


def read_everything(model, inputs):
    """Every value but a video's, in one trace."""
    found = [pair for pair in available(model) if "video_features" not in pair[1].name]
    held = []
    with model.trace(**inputs):
        for host, value in found:
            held.append(getattr(host, value.name).save())
    return dict(zip([path(*pair) for pair in found], held, strict=True))


def check(checkpoint, model, raw, inputs):
    """Clauses 1 to 3 of the contract."""
    with torch.no_grad():
        plain = raw(**inputs).logits
    values = read_everything(model, inputs)
    assert torch.equal(values["logits"], plain)
    if "pixel_values" in inputs and "vision.image_features" in values and "vision.image_token_mask" in values:
        first = f"{checkpoint.row.blocks}.0"
        args, kwargs, _ = hooked(raw, inputs, first)[first]
        entering = args[0] if args else kwargs["hidden_states"]
        mask = values["vision.image_token_mask"]
        assert torch.equal(mask, inputs["input_ids"] == IMAGE)
        assert torch.equal(entering[mask], values["vision.image_features"])
        split = values["vision.image_features_per_image"]
        assert torch.equal(torch.cat(split), values["vision.image_features"])
    return values


@pytest.mark.parametrize("variation", INPUTS)
def test_other_inputs(wrapper, variation):
    inputs = INPUTS[variation](wrapper.row)
    values = check(wrapper, wrapper.model, wrapper.raw, inputs)
    if variation == "five pictures" and "vision.image_features_per_image" in values:
        assert len(values["vision.image_features_per_image"]) == 5


def test_a_prompt_without_a_picture(wrapper):
    text = {"input_ids": torch.tensor([[9, 10, 11, 12, 13]])}
    found = [pair for pair in available(wrapper.model) if not path(*pair).startswith("vision.")]
    held = []
    with wrapper.model.trace(**text):
        for host, value in found:
            held.append(getattr(host, value.name).save())
    logits = held[[path(*pair) for pair in found].index("logits")]
    assert torch.equal(logits, wrapper.raw(**text).logits)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", list(ROWS))
def test_bfloat16(name, attention):
    from conftest import _built

    def half():
        return build(name, attention).bfloat16()

    inputs = ROWS[name].inputs()
    inputs = {key: held.bfloat16() if held.is_floating_point() else held for key, held in inputs.items()}
    values = check(_built[name, attention], StandardizedTransformer(half()), half(), inputs)
    for where, held in values.items():
        if isinstance(held, torch.Tensor) and held.is_floating_point():
            assert held.isfinite().any(), where
