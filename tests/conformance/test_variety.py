"""The contract under other inputs, precisions and kernels: what is read is the model's own, whatever is asked of it."""

import pytest
import torch
from truth import hooked, logits_of
from walk import available, path

from belvedere import StandardizedTransformer
from belvedere.testing import ROWS, build

IMAGE = 5


def joined(row, *encodings):
    """Several prompts as one: their tokens one after the other, and all their pictures."""
    length = [encoding["input_ids"].shape[1] for encoding in encodings]
    made = {}
    for key, held in encodings[0].items():
        parts = [encoding[key] for encoding in encodings]
        if key == "batch_num_images":
            made[key] = sum(parts)
        elif held.shape[:2] == (1, length[0]) or (row.stacked == "prompt" and key.startswith("pixel")):
            made[key] = torch.cat(parts, dim=1)
        else:
            made[key] = torch.cat(padded(parts) if row.tiles and key == "pixel_values" else parts)
    return made


def padded(parts):
    """Tiles ``[pictures, tiles, ...]`` with as many zero ones behind them as the picture with most has."""
    most = max(part.shape[1] for part in parts)
    return [torch.cat([part, part.new_zeros(len(part), most - part.shape[1], *part.shape[2:])], 1) for part in parts]


def right_padded(inputs):
    """The batch with each row's padding behind its text."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    order = mask.argsort(dim=1, descending=True, stable=True)
    rows = torch.arange(len(ids))[:, None]
    return {key: held[rows, order] if held.shape[:2] == ids.shape else held for key, held in inputs.items()}


def one_picture(row):
    return row.solo(row.prompts.index(1))


def several_pictures(row):
    """Five, or four where a prompt's only picture is encoded otherwise."""
    if "batch_num_images" in row.inputs():
        return joined(row, *[row.solo(row.prompts.index(2))] * 2)
    if 2 not in row.prompts:
        return joined(row, *[row.solo(0)] * 5)
    return joined(row, *[row.solo(row.prompts.index(2))] * 2, row.solo(row.prompts.index(1)))


INPUTS = {
    "one picture": one_picture,
    "several pictures": several_pictures,
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


def check(row, model, raw, inputs):
    """Clauses 1 to 3 of the contract."""
    with torch.no_grad():
        plain = logits_of(raw(**inputs))
    values = read_everything(model, inputs)
    assert torch.equal(values["logits"], plain)
    if row.tower and not row.cross:
        args, kwargs, _ = hooked(raw, inputs, f"{row.blocks}.0")[f"{row.blocks}.0"]
        entering = args[0] if args else kwargs["hidden_states"]
        mask = values["vision.image_token_mask"]
        assert torch.equal(mask, inputs["input_ids"] == IMAGE)
        assert torch.equal(entering[mask], values["vision.image_features"])
        assert torch.equal(torch.cat(values["vision.image_features_per_image"]), values["vision.image_features"])
    return values


@pytest.mark.parametrize("variation", INPUTS)
def test_other_inputs(scattering, variation):
    row = scattering.row
    inputs = INPUTS[variation](row)
    values = check(row, scattering.model, scattering.raw, inputs)
    if variation == "several pictures":
        assert len(values["vision.image_features_per_image"]) >= 4


def test_a_padded_batch_of_a_model_that_attends_to_pictures():
    from conftest import _built

    for name in (name for name, row in ROWS.items() if row.cross):
        checkpoint = _built[name, "sdpa"]
        check(checkpoint.row, checkpoint.model, checkpoint.raw, right_padded(checkpoint.inputs))


def without_pictures(model):
    """What a prompt without a picture has: nothing of the tower, and nothing by which a picture would enter."""
    for host, found in available(model):
        crossing = "layers[" in host.name and "cross_attn" in vars(model.get(_block(host.name)))
        if not path(host, found).startswith("vision.") and found.name not in host.ENTERS and not crossing:
            yield host, found


def _block(name):
    return name.partition("]")[0].replace("[", ".")


def test_a_prompt_without_a_picture(wrapper):
    text = {"input_ids": torch.tensor([[9, 10, 11, 12, 13]])}
    found, held = list(without_pictures(wrapper.model)), []
    with wrapper.model.trace(**text):
        for host, value in found:
            held.append(getattr(host, value.name).save())
    logits = held[[path(*pair) for pair in found].index("logits")]
    assert torch.equal(logits, logits_of(wrapper.raw(**text)))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", list(ROWS))
def test_bfloat16(name, attention):
    from conftest import _built

    inputs = ROWS[name].inputs()
    inputs = {key: held.bfloat16() if held.is_floating_point() else held for key, held in inputs.items()}
    model = StandardizedTransformer(build(name, attention).bfloat16())
    values = check(ROWS[name], model, _built[name, attention].untouched(attention).bfloat16(), inputs)
    for where, held in values.items():
        if isinstance(held, torch.Tensor) and held.is_floating_point():
            assert held.isfinite().any(), where
