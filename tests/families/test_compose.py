"""A family is read off the config, entries are files, and an entry from outside is the same as one of ours."""

from types import SimpleNamespace

import pytest

from belvedere import StandardizedTransformer, UnsupportedFamily, families
from belvedere.components import TEXT_BLOCK, Layer
from belvedere.families import Family, Wrapper
from belvedere.testing import ROWS, build


def test_a_wrapper_is_composed_of_three_entries():
    assert families.compose(ROWS["llava"].config()) == Family("llama", "clip_vision_model", "llava")
    assert families.compose(ROWS["qwen3_5"].config()) == Family("qwen3_5_text", "qwen3_5_vision", "qwen3_5")


def test_a_text_model_has_no_tower():
    assert families.compose(ROWS["llama"].config()) == Family("llama")


def test_each_stacks_own_config_confirms_the_entry_that_was_chosen(checkpoint):
    model, family = checkpoint.model, checkpoint.model.family
    stack = model.get(checkpoint.row.stack)
    assert stack.config.model_type == family.text
    if checkpoint.row.tower:
        assert model.vision.config.model_type == family.tower


def test_a_shelf_is_the_files_in_its_folder():
    assert "llama" in families.known("text")
    assert "clip_vision_model" in families.known("towers")
    assert families.known("wrappers") == tuple(sorted(families.known("wrappers")))


def test_an_entry_from_outside_is_used_as_ours_are(monkeypatch):
    class Marked(Layer):
        pass

    entry = SimpleNamespace(RENAME={"mlp": "feed_forward"}, ENVOYS={**TEXT_BLOCK, "layers.*": Marked})
    monkeypatch.setitem(families._registered["text"], "llama_of_tomorrow", None)
    families.register("text", "llama_of_tomorrow", entry)
    assert "llama_of_tomorrow" in families.known("text")
    module = build("llama")
    module.config.model_type = "llama_of_tomorrow"
    model = StandardizedTransformer(module)
    assert type(model.layers[0]) is Marked
    assert model.layers[0].feed_forward is model.layers[0].mlp


def test_a_table_binds_in_its_own_stack_alone(monkeypatch):
    entry = families.lookup("towers", "clip_vision_model")
    mine = SimpleNamespace(RENAME={**entry.RENAME, "mlp": "perceptron"}, ENVOYS=entry.ENVOYS)
    monkeypatch.setitem(families._registered["towers"], "clip_vision_model", mine)
    model = StandardizedTransformer(build("llava"))
    assert model.vision.layers[0].perceptron is model.vision.layers[0].mlp
    assert not hasattr(model.layers[0], "perceptron")


@pytest.mark.parametrize(
    ("shelf", "entry", "match"),
    [
        ("models", SimpleNamespace(), "no shelf 'models'; shelves: text, towers, wrappers"),
        ("text", SimpleNamespace(RENAME={}), "an entry of 'text' needs ENVOYS"),
        ("wrappers", SimpleNamespace(), "an entry of 'wrappers' needs WRAPPER"),
    ],
)
def test_an_entry_that_lacks_what_its_shelf_needs_is_refused(shelf, entry, match):
    with pytest.raises(ValueError, match=match):
        families.register(shelf, "x", entry)


def test_a_wrapper_of_an_unknown_type_loads_under_a_known_one():
    module = build("llava")
    module.config.model_type = "llava_of_tomorrow"
    with pytest.raises(UnsupportedFamily, match=r"pass family=\{'wrapper': <a known type"):
        StandardizedTransformer(module)
    model = StandardizedTransformer(module, family={"wrapper": "llava"})
    assert model.support()["vision.image_features"] is None


def test_a_wrapper_says_only_what_differs():
    assert Wrapper() == families.lookup("wrappers", "llava").WRAPPER


def test_the_rows_around_a_pictures_patches_are_the_towers():
    """Counted by hand: CLS ahead, CLS behind, and a tile padded to a multiple of eight."""
    from belvedere.families import Rows

    assert Rows(before=1).around(16) == (1, 0)
    assert Rows(after=1).around(16) == (0, 1)
    assert Rows(before=1, multiple=8).around(16) == (1, 7)
    assert Rows(before=1, multiple=8).around(15) == (1, 0)
    assert Rows(before=1, packed=True).around(16) == (0, 0)
