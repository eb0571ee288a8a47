"""A result lays itself over the picture that its positions lie in, and over no other."""

import json

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from belvedere import InputError, StandardizedTransformer, shapes
from belvedere.experiments import (
    AblationResult,
    Inside,
    LensResult,
    PatchResult,
    RelevanceResult,
    ablate,
    attribute,
    lens,
    logit_difference,
    patch,
    patch_boxes,
    relevance,
    token_boxes,
)
from belvedere.experiments.pictured import headed, short_name

pytestmark = pytest.mark.trained
_held = {}


def case_of(name):
    """A model, two scenes with two pictures each, their inputs and the metric."""
    if name not in _held:
        model = StandardizedTransformer(shapes.checkpoint(name), dispatch=True)
        scenes = shapes.pair(8, checkpoint=name, images=2)
        shown = [{"text": scene.prompt, "images": scene.images} for scene in scenes]
        words = model.tokenizer.convert_tokens_to_ids([scene.answer for scene in scenes])
        _held[name] = model, scenes, shown, logit_difference(*words)
    return _held[name]


@pytest.fixture(params=shapes.CHECKPOINTS)
def case(request):
    return case_of(request.param)


@pytest.fixture
def llava():
    return case_of("shapes-llava")


def panels_of(figure):
    ground, *panels = [axes for axes in figure.axes if axes.get_title()]
    return ground, panels


def drawn(axes):
    (cells,) = axes.collections
    boxes = [path.get_extents().extents.tolist() for path in cells.get_paths()]
    return torch.tensor(boxes, dtype=torch.float64), torch.as_tensor(cells.get_array().data)


@pytest.mark.parametrize("value", ["layers.layer_input", "vision.layers.layer_output"])
@pytest.mark.parametrize("image", [0, 1])
def test_of_two_pictures_each_gets_its_own_columns(case, value, image):
    model, (clean, _), (shown, hidden), metric = case
    result = attribute(model, shown, hidden, value, metric, layers=[0])
    boxes_of = patch_boxes if value.startswith("vision") else token_boxes
    boxes = boxes_of(model, shown, clean.images[image].size, image)
    others = len(boxes_of(model, shown, clean.images[0].size, 0)) if image else 0
    ground, (panel,) = panels_of(result.overlay(clean.images[image]))
    assert ground.get_title() == f"picture {image}"
    found, values = drawn(panel)
    torch.testing.assert_close(found, boxes.double(), atol=1e-4, rtol=0)
    torch.testing.assert_close(values, result.effects[0, others : others + len(boxes)])


def test_a_set_of_positions_colours_all_of_its_boxes(case):
    model, (clean, _), (shown, hidden), metric = case
    image, box = clean.asked, clean.changed
    sets = [Inside(box, image=image), Inside(box, image=image, outside=True), "last"]
    result = patch(model, shown, hidden, "layers.layer_input", metric, positions=sets, layers=[0])
    _, (panel,) = panels_of(result.overlay(clean.images[image], outline=box))
    found, values = drawn(panel)
    boxes = token_boxes(model, shown, clean.images[image].size, image)
    assert len(found) == len(boxes)
    assert values.unique().tolist() == sorted(result.effects[0, :2].tolist())


@pytest.mark.parametrize("experiment", ["patch", "ablate", "lens", "relevance"])
def test_a_file_brings_its_boxes_and_an_older_one_says_what_to_pass(llava, experiment, tmp_path):
    model, (clean, _), (shown, hidden), metric = llava
    made = {
        "patch": lambda: patch(model, shown, hidden, "layers.layer_input", metric, layers=[0]),
        "ablate": lambda: ablate(model, shown, "layers.layer_input", metric, layers=[0]),
        "lens": lambda: lens(model, shown, layers=[0]),
        "relevance": lambda: relevance(model, shown, metric=metric),
    }[experiment]()
    kinds = {"patch": PatchResult, "ablate": AblationResult, "lens": LensResult, "relevance": RelevanceResult}
    kind, path = kinds[experiment], tmp_path / "result.safetensors"
    made.save(path)
    back = kind.load(path)
    assert (back.sizes, back.prints) == (made.sizes, made.prints)
    assert len(back.prints) == 2
    _, panels = panels_of(back.overlay(clean.images[1], image=1))
    assert drawn(panels[0])[0].equal(drawn(panels_of(made.overlay(clean.images[1]))[1][0])[0])
    with pytest.raises(InputError, match="this is picture 1 of the input, and image=0"):
        back.overlay(clean.images[1], image=0)
    with safe_open(path, framework="pt") as opened:
        header = {key: json.loads(held) for key, held in opened.metadata().items()}
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping
    for newer in ("sizes", "prints", "texts", *(("places",) if experiment in ("patch", "ablate") else ())):
        header[kind.HEADER].pop(newer, None)
    if experiment in ("patch", "ablate"):
        del tensors["boxes"], tensors["images"]
    save_file(tensors, path, metadata={key: json.dumps(held) for key, held in header.items()})
    older = kind.load(path)
    assert older.plot().axes
    if experiment in ("patch", "ablate"):
        with pytest.raises(InputError, match=r"pass boxes=token_boxes\(model, shown, picture.size\)"):
            older.overlay(clean.images[0])
        boxes = torch.cat([token_boxes(model, shown, one.size, number) for number, one in enumerate(clean.images)])
        assert older.overlay(clean.images[0], boxes).axes
    else:
        with pytest.raises(InputError, match="say which by image="):
            older.overlay(clean.images[0])
        assert older.overlay(clean.images[0], image=0).axes


def test_pictures_that_do_not_fit_are_refused(llava):
    model, (clean, corrupt), (shown, hidden), metric = llava
    result = attribute(model, shown, hidden, "layers.layer_input", metric, layers=[0, 1])
    wide, high = clean.image.size
    with pytest.raises(InputError, match=f"200 x 90 pixels, and the input showed {wide} x {high}"):
        result.overlay(clean.image.resize((200, 90)))
    with pytest.raises(InputError, match="may be 0 or 1 of the input's 2; say which"):
        result.overlay(Image.new("RGB", clean.image.size))
    with pytest.raises(InputError, match="there is no picture 2; the input shows 2"):
        result.overlay(clean.image, image=2)
    with pytest.raises(InputError, match="there is no block 99 in this result; it has 0, 1"):
        result.overlay(clean.image, layers=[99])
    with pytest.raises(InputError, match=r"outline=.* is no box"):
        result.overlay(clean.image, outline=(1, 2, 3))
    assert result.overlay(corrupt.images[corrupt.asked], layers=[1]).axes
    assert result.overlay(Image.new("RGB", clean.image.size), image=1).axes


def test_a_path_will_do_for_a_picture(llava, tmp_path):
    model, (clean, _), (shown, hidden), metric = llava
    result = attribute(model, shown, hidden, "layers.layer_input", metric, layers=[0])
    clean.images[1].save(tmp_path / "one.png")
    ground, _ = panels_of(result.overlay(tmp_path / "one.png"))
    assert ground.get_title() == "picture 1"
    with pytest.raises(InputError):
        result.overlay(7)


def test_boxes_of_other_positions_are_refused(llava):
    model, (clean, _), (shown, hidden), metric = llava
    own = token_boxes(model, shown, clean.images[0].size)
    moved = attribute(
        model, shown, hidden, "layers.layer_input", metric, layers=[0], positions=range(10, 10 + len(own))
    )
    with pytest.raises((InputError, ValueError), match=r"not those of this result's columns|one for each column"):
        moved.overlay(clean.images[0], own)
    result = attribute(model, shown, hidden, "layers.layer_input", metric, layers=[0])
    assert result.overlay(clean.images[0], own.tolist()).axes
    halved = clean.images[0].resize((clean.images[0].width // 2, clean.images[0].height // 2))
    assert result.overlay(halved, own / 2, image=0).axes
    with pytest.raises(InputError, match="not those of this result's columns"):
        result.overlay(clean.images[0], own.flip(0))
    for size in ((5, 5), (90, 64)):
        with pytest.raises(InputError, match=r"size=\(\d+, \d+\) was passed"):
            token_boxes(model, shown, size)


def test_heads_are_laid_over_one_at_a_time(llava):
    model, (clean, _), (shown, hidden), metric = llava
    places = lens(model, shown, top=1).positions[:3]
    result = attribute(
        model, shown, hidden, "layers.attention_head_outputs", metric, layers=[0], positions=list(places), heads=[0, 1]
    )
    with pytest.raises(InputError, match="is in 2 columns, and a box has one colour; choose a head with `of_head`"):
        result.overlay(clean.images[0])
    _, (panel,) = panels_of(result.of_head(1).overlay(clean.images[0]))
    assert len(drawn(panel)[0]) == 3


def test_an_encoding_has_no_boxes_and_says_so(llava):
    model, (clean, _), (shown, _), metric = llava
    encoding = dict(model.processor(text=shown["text"], images=shown["images"], return_tensors="pt"))
    result = ablate(model, encoding, "layers.layer_input", metric, layers=[0])
    with pytest.raises(InputError, match="as of text, of an encoding or of an older file"):
        result.overlay(clean.images[0])


def test_blocks_and_words_that_a_lens_does_not_have_are_refused(llava):
    model, (clean, _), (shown, _), _ = llava
    words = lens(model, shown, layers=[0], top=2)
    with pytest.raises(InputError, match="there is no block 99 in this result; it has 0"):
        words.reading(99)
    with pytest.raises(InputError, match="there is no place 2; the lens kept 2 words"):
        words.reading(0, 2)
    with pytest.raises(InputError, match="there is no block 99"):
        words.overlay(clean.images[0], layers=[99])
    (_, panel, *_) = words.overlay(clean.images[0]).axes
    assert panel.collections[0].norm.vmin == 0


def test_titles_and_axes_speak_of_words(llava):
    model, (clean, corrupt), (shown, _), metric = llava
    result = ablate(model, shown, "layers.layer_input", metric, layers=[0], positions=range(140))
    figure = result.plot()
    title = figure._suptitle.get_text().replace("\n", " ")
    assert "ablation of layers.layer_input" in title
    assert f"{clean.answer} - {corrupt.answer}, shapes-llava" in title
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels(minor=True)] == [
        "image 0: 64 tokens",
        "image 1: 64 tokens",
    ]
    assert axes.get_xticklabels()[0].get_text() == "0 <s>"


def test_a_model_s_name_is_its_last_part():
    assert short_name("llava-hf/llava-1.5-7b-hf") == "llava-1.5-7b-hf"
    assert short_name("/cache/models--llava-hf--llava-1.5-7b-hf/snapshots/0a1b") == "llava-1.5-7b-hf"
    assert headed("patching", "layers.layer_output", {}) == "patching of layers.layer_output"
