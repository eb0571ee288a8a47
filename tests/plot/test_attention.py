"""The attention over pictures: each picture gets its own, its title says how much in all, and all can be read."""

from itertools import combinations

import pytest
import torch
from truth import hooked
from written import check

from belvedere import InputError, StandardizedTransformer, shapes
from belvedere.experiments import AttentionResult, attention
from belvedere.testing import build, tiny

_held = {}


def case(name):
    """A result over two pictures, the eager row that it should show, and the ids of the prompt."""
    if name not in _held:
        made = tiny(name)
        shown = {"text": made.prompt, "images": made.images}
        layer = next(iter(attention(made.model, shown).layers))
        result = attention(made.model, shown, layers=layer)
        encoding = dict(made.processor(text=made.prompt, images=made.images, return_tensors="pt"))
        where = made.row.attention(layer)
        truth = hooked(build(name, "eager"), encoding, where)[where][2][1][0][:, -1]
        _held[name] = made, result, truth, encoding["input_ids"][0].eq(made.model.placeholder("image"))
    return _held[name]


def panels(figure):
    """The panels, with the name of the picture that they are over."""
    found, name = [], ""
    for axes in figure.axes:
        title = axes.get_title()
        if title and not axes.collections:
            name = title
        elif title:
            found.append((name, title, axes.collections[0]))
    return found


def share(title):
    return float(title.splitlines()[1].partition("%")[0]) / 100


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl", "internvl", "llava_next", "idefics2", "gemma3"])
def test_the_titles_say_the_share_of_each_picture_and_together_with_the_rest_it_is_all(name):
    _, result, truth, shown = case(name)
    figure = result.overlay()
    mean = truth.mean(0)
    totals = [share(title) for _, title, _ in panels(figure)]
    newlines = float(result.shares().get("newlines", torch.zeros(1)).mean())
    assert sum(totals) + newlines == pytest.approx(float(mean[shown].sum()), abs=2e-3)
    assert {name for name, _, _ in panels(figure)} == {"picture 0", "picture 1"}
    text = float(result.shares()["text"].mean())
    assert text == pytest.approx(float(mean[~shown].sum()), abs=1e-4)
    check(figure)


@pytest.mark.parametrize("name", ["llava_next", "internvl", "idefics3"])
def test_tiles_and_thumbnail_are_panels_of_their_own_whose_boxes_do_not_meet(name):
    _, result, _, _ = case(name)
    drawn = panels(result.overlay())
    assert ["thumbnail" in title for _, title, _ in drawn] == [False, True] * 2
    for _, _, cells in drawn:
        for one, two in combinations([path.get_extents() for path in cells.get_paths()], 2):
            across = min(one.x1, two.x1) - max(one.x0, two.x0)
            down = min(one.y1, two.y1) - max(one.y0, two.y0)
            assert min(across, down) < 1e-3


def test_newlines_have_a_share_and_no_box():
    made, result, truth, _ = case("llava_next")
    layout = made.model.layout(made.prompt, images=made.images)
    # By hand: behind the thumbnail's 16 each picture has its lines, each ended by a newline, and lines of padding are
    # cut off: 4 of 7 columns, and 8 lines of 4 (40 x 24 and 24 x 48 in tiles of 32).
    newlines = layout.positions[layout.tokens.of_kind("newline"), 1]
    assert float(result.shares()["newlines"].mean()) == pytest.approx(float(truth.mean(0)[newlines].sum()), abs=1e-4)
    assert len(newlines) == sum(region.rows for region in layout.token_regions if region.part == "picture")
    assert sum(len(result.on_picture(image)[1]) for image in (0, 1)) == sum(
        region.rows * region.columns for region in layout.token_regions if region.part == "picture"
    )


def test_a_packed_tower_s_rows_look_at_their_own_picture_alone():
    made = tiny("qwen2_vl")
    result = attention(made.model, {"text": made.prompt, "images": made.images}, [0, -1], stack="vision")
    (first, second) = result.shares()["picture 0"][0], result.shares()["picture 1"][0]
    torch.testing.assert_close(first[0], torch.ones_like(first[0]))
    torch.testing.assert_close(second[1], torch.ones_like(second[1]))
    assert float(first[1].abs().max()) == float(second[0].abs().max()) == 0


@pytest.mark.parametrize("heads", ["each", [1, -1], 0])
def test_heads_are_panels_and_each_is_its_own(heads):
    _, result, truth, _ = case("llava")
    drawn = panels(result.overlay(heads=heads, image=1))
    wanted = {"each": [0, 1, 2, 3], 0: [0]}.get(heads if isinstance(heads, (str, int)) else "", [1, 3])
    assert [title.splitlines()[0] for _, title, _ in drawn] == [f"block 0, head {head}" for head in wanted]
    places = result.groups()["picture 1"]
    for (_, _, cells), head in zip(drawn, wanted, strict=True):
        torch.testing.assert_close(torch.as_tensor(cells.get_array().data), truth[head, places], atol=1e-5, rtol=1e-3)


def test_a_file_keeps_all_but_the_pictures(tmp_path):
    made, result, _, _ = case("llava")
    result.save(tmp_path / "attention.safetensors")
    back = AttentionResult.load(tmp_path / "attention.safetensors")
    assert torch.equal(back.attention, result.attention)
    assert (back.texts, back.prints, back.pictures) == (result.texts, result.prints, ())
    assert back.lines() == result.lines()
    with pytest.raises(InputError, match=r"does not hold its pictures.*; pass the picture"):
        back.overlay()
    assert panels(back.overlay(made.images[1]))[0][0] == "picture 1"


def test_refusals_say_what_there_is():
    made, result, _, _ = case("llava")
    with pytest.raises(InputError, match="no head 4; there are 4, 0 to 3"):
        result.overlay(heads=4)
    with pytest.raises(InputError, match="neither 'mean' nor 'each'"):
        result.overlay(heads="max")
    with pytest.raises(InputError, match="no picture 2; the input shows 2"):
        result.overlay(image=2)
    with pytest.raises(InputError, match="there is no block 1 in this result"):
        result.overlay(layers=1)
    of_text = attention(made.model, {"text": "what is it ?"})
    assert set(of_text.shares()) == {"text"}
    with pytest.raises(InputError, match="does not hold its pictures"):
        of_text.overlay()
    every = attention(made.model, {"text": made.prompt, "images": made.images}, "all")
    with pytest.raises(InputError, match="panels are more than can be told apart; choose blocks"):
        every.overlay(heads="each")


@pytest.mark.trained
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_all_that_is_written_on_a_trained_checkpoint_s_pictures_can_be_read(name):
    model = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
    scene = shapes.sample(8, checkpoint=name, images=2)
    result = attention(model, {"text": scene.prompt, "images": scene.images})
    check(result.plot())
    check(result.overlay(heads="each", scale="panel"))
