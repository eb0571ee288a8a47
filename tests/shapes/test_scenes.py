"""A scene is what its objects say: every fact of it is recomputed here from the objects and the pixels."""

import hashlib
import subprocess
import sys
from collections import Counter

import pytest
from PIL import ImageChops

from belvedere import shapes

SEEDS = range(60)


@pytest.fixture(params=shapes.CHECKPOINTS)
def name(request):
    return request.param


def everything(scene):
    pixels = hashlib.sha256(b"".join(image.tobytes() for image in scene.images)).hexdigest()
    return scene.question, scene.answer, scene.pictures, pixels


def fitting(scene):
    """The objects that the question's own words describe."""
    words = scene.question.replace(",", "").rstrip("?").split()
    return [item for item in scene.objects if {item.shape, item.color, item.position} & set(words)]


def wanted(scene):
    """The attribute that the question asks for."""
    words = scene.question.split()
    return words[words.index("what") + 1]


def test_a_seed_is_a_scene(name):
    for kind in (None, *shapes.KINDS):
        assert everything(shapes.sample(5, checkpoint=name, kind=kind)) == everything(
            shapes.sample(5, checkpoint=name, kind=kind)
        )
    assert shapes.sample(5, checkpoint=name) != shapes.sample(6, checkpoint=name)


def test_a_seed_is_a_scene_in_another_process(name):
    code = f"""
import hashlib
from belvedere import shapes
scene = shapes.sample(11, checkpoint={name!r})
print(scene.question, scene.answer, hashlib.sha256(scene.image.tobytes()).hexdigest())
"""
    scene = shapes.sample(11, checkpoint=name)
    expected = f"{scene.question} {scene.answer} {hashlib.sha256(scene.image.tobytes()).hexdigest()}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


@pytest.mark.parametrize("kind", shapes.KINDS)
def test_exactly_one_object_fits_the_question_and_gives_the_answer(name, kind):
    for seed in SEEDS:
        scene = shapes.sample(seed, checkpoint=name, kind=kind)
        assert scene.kind == kind
        (fits,) = fitting(scene)
        assert fits == scene.subject
        assert scene.answer == getattr(fits, wanted(scene))
        assert scene.answer not in scene.question


@pytest.mark.parametrize(("kind", "asked"), [("first_image", 0), ("second_image", 1)])
def test_the_other_picture_would_give_another_answer(name, kind, asked):
    for seed in SEEDS:
        scene = shapes.sample(seed, checkpoint=name, kind=kind)
        assert (scene.asked, len(scene.images)) == (asked, 2)
        assert f"{kind.split('_')[0]} image" in scene.question
        elsewhere = shapes.Scene(**{**vars_of(scene), "asked": 1 - asked})
        (rival,) = fitting(elsewhere)
        assert getattr(rival, wanted(scene)) != scene.answer


def vars_of(scene):
    return {field: getattr(scene, field) for field in scene.__dataclass_fields__}


def test_objects_keep_apart_and_lie_where_their_position_says(name):
    for seed in SEEDS:
        scene = shapes.sample(seed, checkpoint=name)
        width, height = scene.image.size
        assert 3 <= len(scene.objects) <= 5
        assert max(Counter(item.position for item in scene.objects).values()) == 1
        tokens = [token for item in scene.objects for token in scene.tokens_under(item.box)]
        assert len(tokens) == len(set(tokens)) == 4 * len(scene.objects)
        for item in scene.objects:
            left, top, right, bottom = item.box
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            row = ("north", "", "south")[int(1.5 * (top + bottom) / height)]
            column = ("west", "", "east")[int(1.5 * (left + right) / width)]
            assert item.position == (row + column or "center")


def test_scenes_vary(name):
    scenes = [shapes.sample(seed, checkpoint=name) for seed in SEEDS]
    objects = [item for scene in scenes for item in scene.objects]
    assert {item.shape for item in objects} == set(shapes.SHAPES)
    assert {item.color for item in objects} == set(shapes.COLORS)
    assert {item.size for item in objects} == set(shapes.SIZES)
    assert len({item.position for item in objects}) == 9
    assert len({item.box[2] - item.box[0] for item in objects}) >= 4
    grounds = [sum(scene.pictures[0].ground) // 3 for scene in scenes]
    assert max(grounds) - min(grounds) > 100


def test_qwen_pictures_have_many_sizes_and_llava_pictures_one():
    sizes = {name: {shapes.sample(seed, checkpoint=name).image.size for seed in SEEDS} for name in shapes.CHECKPOINTS}
    assert sizes["shapes-llava"] == {(64, 64)}
    assert len(sizes["shapes-qwen3_5"]) == 9


@pytest.mark.parametrize("kind", [None, *(kind for kind in shapes.KINDS if kind != "size_of_shape")])
def test_a_pair_differs_inside_the_changed_box_and_nowhere_else(name, kind):
    for seed in SEEDS:
        clean, corrupt = shapes.pair(seed, checkpoint=name, kind=kind)
        assert clean.question == corrupt.question
        assert clean.answer != corrupt.answer
        assert clean.changed == corrupt.changed == clean.subject.box == corrupt.subject.box
        assert [image.size for image in clean.images] == [image.size for image in corrupt.images]
        for index, (before, after) in enumerate(zip(clean.images, corrupt.images, strict=True)):
            differing = ImageChops.difference(before, after).getbbox()
            if index != clean.asked:
                assert differing is None
                continue
            left, top, right, bottom = clean.changed
            assert left <= differing[0] < differing[2] <= right
            assert top <= differing[1] < differing[3] <= bottom


def test_both_questions_of_a_pair_fit_exactly_one_object(name):
    for seed in SEEDS:
        for scene in shapes.pair(seed, checkpoint=name, images=1 + seed % 2):
            (fits,) = fitting(scene)
            assert scene.answer == getattr(fits, wanted(scene))


def test_tokens_under_a_box_count_the_pictures_before():
    scene = shapes.sample(3, kind="second_image")
    first, second = (image.size for image in scene.images)
    before = first[0] * first[1] // 256
    assert scene.tokens_under((0, 0, 16, 16)) == [before]
    assert scene.tokens_under((15, 0, 17, 17)) == [before + i for i in (0, 1, second[0] // 16, second[0] // 16 + 1)]


def test_a_size_can_be_chosen():
    assert shapes.sample(1, size=(96, 128)).image.size == (96, 128)
    assert {image.size for image in shapes.sample(1, images=2, size=(96, 128)).images} == {(96, 128)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"checkpoint": "shapes-gpt"}, "shapes-llava, shapes-qwen3_5"),
        ({"kind": "weather"}, "color_of_shape"),
        ({"images": 3}, "1 picture or 2"),
        ({"kind": "second_image", "images": 1}, "goes with 2 image"),
        ({"kind": "color_of_shape", "images": 2}, "goes with 1 image"),
        ({"size": (100, 96)}, "sides"),
        ({"objects": 9}, "1 to 5"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_can(arguments, said):
    with pytest.raises(ValueError, match=said):
        shapes.sample(0, **arguments)


def test_a_pair_of_sizes_is_refused():
    with pytest.raises(ValueError, match="size_of_shape"):
        shapes.pair(0, kind="size_of_shape")


def test_a_checkpoint_has_a_folder_and_others_are_refused(name):
    assert shapes.checkpoint(name).is_dir()
    with pytest.raises(ValueError, match=name):
        shapes.checkpoint("shapes-gpt")


def test_shapes_open_without_torch_or_modeling_files():
    code = """
import sys
from belvedere import shapes
shapes.pair(0)[0].images
print([m for m in sys.modules if m.split(".")[0] in ("torch", "transformers")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
