"""The page "Where is this patch?" has a picture of every tower, each of that tower and none degenerate."""

import importlib.util

import pytest
from door.pages import PAGES, ROOT

from belvedere import families
from belvedere.testing import ROWS


def loaded(name):
    made = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


hooks = loaded("_hooks")
drawn = hooks._pictures
SHELVES = {"towers": drawn.PICTURES, "wrappers": drawn.FURTHER}
EACH = [(shelf, name) for shelf, pictures in SHELVES.items() for name in pictures]


def test_every_tower_has_a_picture():
    assert set(drawn.PICTURES) == set(families.known("towers"))


@pytest.mark.parametrize(("shelf", "name"), EACH)
def test_a_picture_is_of_what_it_says(shelf, name):
    picture = SHELVES[shelf][name]
    family = families.compose(ROWS[picture.row].config())
    assert name == (family.tower if shelf == "towers" else family.wrapper)
    _, layout = drawn.placed(picture.row, picture.size)
    assert len(layout.patches) >= 16
    assert layout.sizes == (picture.size,)


def test_no_two_towers_show_the_same():
    shown = [picture.says for picture in drawn.PICTURES.values()]
    assert len(set(shown)) == len(shown)
    assert all(says.endswith(".") and "\n" not in says for says in shown)


def test_a_picture_is_a_small_file():
    made = drawn.drawn("qwen2_5_vl_vision")
    assert made.startswith(b"\x89PNG")
    assert len(made) < 200_000


def test_the_page_asks_for_all_of_them():
    asked = [found["shelf"] for page in PAGES for found in hooks.DRAWN.finditer(page.read_text())]
    assert asked == list(SHELVES)
    written = hooks.on_page_markdown("<!-- drawn: towers -->")
    for tower in families.known("towers"):
        assert f"### `{tower}`" in written
        assert f"(pictures/{tower}.png)" in written


def test_the_table_has_a_line_for_each_tower_and_wrapper():
    lines = {(tower, wrapper) for tower, _, _, wrappers, _, _ in hooks._placing.towers() for wrapper in wrappers}
    composed = [families.compose(row.config()) for row in ROWS.values() if row.tower]
    assert lines == {(family.tower, family.wrapper) for family in composed}


@pytest.mark.parametrize(
    ("tower", "wrapper", "token", "way"),
    [
        ("clip_vision_model", "llava", "1 patch", "scaled, its middle cut out"),
        ("siglip_vision_model", "paligemma", "1 patch", "stretched"),
        ("siglip_vision_model", "deepseek_vl", "1 patch", "scaled, padded"),
        ("pixtral", "mistral3", "4 patches", "scaled"),
        ("idefics2_vision", "idefics2", "all patches", "scaled"),
        ("mllama_vision_model", "mllama", "no token: text blocks attend to the rows", "scaled, padded, cut into tiles"),
        (
            "clip_vision_model",
            "llava_next",
            "1 patch, a newline after each line",
            "scaled, padded, cut into tiles, a thumbnail beside them",
        ),
    ],
)
def test_the_table_says_what_a_processor_is_known_to_do(tower, wrapper, token, way):
    found = [
        (made, shown) for one, _, _, names, made, shown in hooks._placing.towers() if one == tower if wrapper in names
    ]
    assert found == [(token, way)]
