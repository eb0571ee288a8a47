"""Where a position looks is what the model's own eager attention says, and each key is named for what it is."""

import pytest
import torch
from truth import hooked

from belvedere import Unavailable
from belvedere.components.pattern import SOFTMAXES, Softmax
from belvedere.experiments import attention
from belvedere.experiments.patterns import Patterns
from belvedere.geometry import KINDS
from belvedere.testing import build, tiny


def alone(checkpoint):
    return {**checkpoint.row.solo(0), **checkpoint.row.forward}


def native(checkpoint, encoding, layer):
    """The pattern of a text block, ``[heads, query, key]``, from a hook on an eager load."""
    where = checkpoint.row.attention(layer)
    return hooked(checkpoint.eager, encoding, where)[where][2][1][0]


def test_a_row_is_eager_attention_s_own(checkpoint):
    encoding = alone(checkpoint)
    hosts = Patterns.find(checkpoint.model, "text", None).hosts
    if len({host.num_heads for host in hosts.values()}) > 1:
        with pytest.raises(Unavailable, match="heads, which are no one tensor"):
            attention(checkpoint.model, encoding, [2, -1])
        hosts = dict(list(hosts.items())[:1])
    result = attention(checkpoint.model, encoding, [2, -1], layers=list(hosts))
    for row, layer in enumerate(result.layers):
        truth = native(checkpoint, encoding, layer)[:, [2, -1]].transpose(0, 1)
        torch.testing.assert_close(result.attention[row], truth, atol=1e-4, rtol=1e-3)
    together = sum(result.shares().values())
    torch.testing.assert_close(together, torch.ones_like(together), atol=1e-4, rtol=0)


def test_the_share_of_the_pictures_is_that_of_their_placeholders(scattering):
    encoding = alone(scattering)
    layer = next(iter(Patterns.find(scattering.model, "text", None).hosts))
    result = attention(scattering.model, encoding, "last", layers=layer)
    shown = encoding["input_ids"][0].eq(scattering.model.placeholder("image"))
    assert shown.sum() == result.kinds.ge(0).sum()
    own = native(scattering, encoding, layer)[:, -1][:, shown].sum(-1)
    shares = result.shares()
    pictured = sum(share for name, share in shares.items() if name not in ("text", "sink"))
    torch.testing.assert_close(pictured[0, 0], own, atol=1e-4, rtol=1e-3)
    newlines = result.kinds.eq(KINDS.index("newline"))
    assert ("newlines" in shares) == bool(newlines.any())


def test_no_row_of_a_pattern_is_made_that_nobody_asks_for(llava, monkeypatch):
    rows, softmax = [], Softmax.__torch_function__

    def watched(self, func, types, args=(), kwargs=None):
        if func in SOFTMAXES:
            rows.append(args[0].shape[-2])
        return softmax(self, func, types, args, kwargs)

    monkeypatch.setattr(Softmax, "__torch_function__", watched)
    result = attention(llava.model, alone(llava), [2, 5, -1], layers=[0, 2])
    assert rows == [3, 3]
    assert result.attention.shape[:2] == (2, 3)


def test_where_a_text_looks_beside_its_prompt_is_on_the_tower_s_rows():
    made = tiny("mllama")
    shown = {"text": made.prompt, "images": made.images}
    result = attention(made.model, shown, "last", stack="cross")
    assert result.layers
    assert all("cross_attn" in vars(made.model.layers[layer]) for layer in result.layers)
    layout = made.model.layout(made.prompt, images=made.images)
    encoding = made.processor(images=[made.images], text=made.prompt, return_tensors="pt")
    where = made.row.attention(result.layers[0], "cross_attn")
    eager = build("mllama", "eager")
    truth = hooked(eager, dict(encoding), where)[where][2][1][0][:, -1]
    torch.testing.assert_close(result.attention[0, 0], truth, atol=1e-5, rtol=1e-4)
    # Of each tile its CLS and its 16 patches are kept, two tiles to a picture.
    assert truth.shape[-1] == 4 * 17
    for image in (0, 1):
        tiles = truth[:, 34 * image : 34 * image + 34].view(-1, 2, 17)[..., 1:].flatten(1)
        found, boxes = result.on_picture(image)
        torch.testing.assert_close(found[0, 0].sum(-1), tiles.sum(-1))
        hot = int(tiles[0].argmax())
        row = [*range(1, 17), *range(25, 41)][hot] + 48 * image
        assert tuple(boxes[int(found[0, 0, 0].argmax())].tolist()) == layout.patches[row].source_box
    assert [axes.get_title() for axes in result.overlay().axes if axes.get_title().startswith("pic")] == [
        "picture 0",
        "picture 1",
    ]
    with pytest.raises(Unavailable, match="attends to the prompt alone; blocks with cross_attn"):
        attention(made.model, shown, stack="cross", layers=0)
    with pytest.raises(Unavailable, match="this model's blocks attend to the prompt alone"):
        attention(tiny("llava").model, {"text": "a"}, stack="cross")
