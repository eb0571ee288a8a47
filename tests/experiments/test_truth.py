"""What the trained checkpoints are known to do: the answer is held by the image tokens that show the object."""

import pytest
import torch

from belvedere import StandardizedTransformer, shapes
from belvedere.experiments import logit_difference, patch

_models = {}


def model_of(name):
    if name not in _models:
        _models[name] = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
    return _models[name]


@pytest.mark.trained
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_the_tokens_under_the_changed_object_hold_the_answer(name, seed):
    model = model_of(name)
    clean, corrupt = shapes.pair(seed, checkpoint=name, images=1)
    encodings = [model.processor(text=s.prompt, images=s.images, return_tensors="pt") for s in (clean, corrupt)]
    ids = encodings[0]["input_ids"][0]
    places = (ids == model.processor.image_token_id).nonzero().flatten().tolist()
    under = {places[row] for row in clean.tokens_under(clean.changed)}
    words = [model.tokenizer(s.answer, add_special_tokens=False)["input_ids"] for s in (clean, corrupt)]
    assert [len(word) for word in words] == [1, 1]
    result = patch(
        model,
        *encodings,
        "layers.layer_input",
        logit_difference(words[0][0], words[1][0]),
        layers=[0],
        positions=[sorted(under), sorted(set(places) - under)],
    )
    assert result.clean > 0 > result.corrupt
    restored, others = result.effects[0].tolist()
    assert restored >= 0.9
    assert others < 0.2
    assert torch.isfinite(result.effects).all()
