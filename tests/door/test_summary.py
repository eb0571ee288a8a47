"""What `print(model)` and `print(model.vision)` say, against the forward itself."""

import re

import pytest
import torch

import belvedere
from belvedere import StandardizedTransformer
from belvedere.families import compose
from belvedere.testing import ROWS, build

SCREEN = 30
WIDTH = 130
SIZED = r"(\d+) for (\d+) x \2 pixels"


def line(shown, label):
    """What stands behind a label, over all its lines."""
    found = re.search(rf"^  {re.escape(label):<13}((?:.*)(?:\n {{15}}.*)*)", shown, re.MULTILINE)
    return None if found is None else " ".join(found[1].split())


def test_a_model_is_one_screen(checkpoint):
    shown = repr(checkpoint.model)
    assert len(shown.splitlines()) <= SCREEN
    assert max(map(len, shown.splitlines())) <= WIDTH
    rows = checkpoint.model.support().values()
    nowhere = sum(isinstance(reason, str) for reason in rows)
    assert line(shown, "values").startswith(f"{len(rows) - nowhere} can be read")
    assert line(shown, "values").endswith(f"{nowhere} are not here")
    for name in ("text", "tower", "wrapper"):
        assert line(shown, name).startswith(getattr(checkpoint.model.family, name) or "none: ")


def test_the_sizes_are_those_of_the_weights(checkpoint):
    shown, module = repr(checkpoint.model), checkpoint.model._module
    width, vocabulary = checkpoint.model.lm_head._module.weight.T.shape
    assert f"width {width}," in line(shown, "text")
    assert line(shown, "text").endswith(f"a vocabulary of {vocabulary}")
    assert line(shown, "weights").startswith(f"{sum(held.numel() for held in module.parameters()) / 1e6:.2f} million")
    assert line(shown, "weights").endswith("float32 on cpu")


def test_a_tower_is_one_screen(wrapper):
    vision = wrapper.model.vision
    shown = repr(vision)
    assert len(shown.splitlines()) <= SCREEN
    assert max(map(len, shown.splitlines())) <= 2 * WIDTH
    for name, found in vision.values().items():
        written = re.search(rf"^    {name} ", shown, re.MULTILINE) is not None
        assert written is (found.reason(vision) is None), name
        assert written or name in line(shown, "not here")
    for entry in vision.entries():
        assert re.sub(r"\[\d+\]", "", entry.path) in re.sub(r"\[[\d, -]+\]", "", line(shown, "enters at"))


def sized(row):
    """Whether a row's pictures are apart, and have the one size that its tower names."""
    if compose(row.config()).rows.packed:
        return False
    pixels, side = row.inputs().get("pixel_values"), getattr(row.config().vision_config, "image_size", None)
    return pixels is not None and pixels.ndim >= 4 and tuple(pixels.shape[-2:]) == (side, side)


FIXED = [name for name, row in ROWS.items() if row.tower and sized(row)]


def test_most_wrappers_show_pictures_of_the_tower_s_own_size():
    assert len(FIXED) > len([row for row in ROWS.values() if row.tower]) // 3


@pytest.mark.parametrize("name", FIXED)
def test_the_rows_of_a_picture_are_those_that_enter_the_first_block(name):
    model, entered = StandardizedTransformer(build(name)), []
    rows, side = re.search(SIZED, line(repr(model.vision), "rows")).groups()
    assert int(side) == model.vision.image_size
    block = model.vision.layers[0]._module
    handle = block.register_forward_pre_hook(
        lambda _, args, given: entered.append([*args, *given.values()][0]), with_kwargs=True
    )
    with torch.no_grad():
        model._module(**{**ROWS[name].forward, **ROWS[name].inputs()})
    handle.remove()
    # Mllama has all tiles of a picture in one row.
    tiles = model.vision.config.max_num_tiles if name == "mllama" else 1
    assert entered[0].shape[-2] == int(rows) * tiles


def test_the_image_tokens_of_a_picture_are_those_of_the_prompt(wrapper):
    said = re.search(SIZED, line(repr(wrapper.model.vision), "image tokens") or "")
    if said is None:
        return
    inputs = wrapper.inputs
    assert inputs["pixel_values"].shape[-1] == int(said[2])
    pictures = inputs["pixel_values"].flatten(0, -4).shape[0]
    assert int((inputs["input_ids"] == wrapper.model.placeholder("image")).sum()) == int(said[1]) * pictures


def test_which_block_is_read_and_which_has_what_is_said():
    llava = StandardizedTransformer(build("llava"))
    assert line(repr(llava.vision), "taken") == "the stream of block 1; nothing reads the later blocks"
    hybrid = StandardizedTransformer(build("qwen3_5"))
    said = line(repr(hybrid), "blocks")
    for name in ("linear_attn", "self_attn"):
        numbers = [
            number for number, block in enumerate(hybrid._module.model.language_model.layers) if hasattr(block, name)
        ]
        assert f"{len(numbers)} with {name} (" in said
    assert "2 x 2 patches" in line(repr(hybrid.vision), "image tokens")


def test_a_text_model_says_that_it_has_no_tower_and_a_model_without_weights_that_it_cannot_run():
    plain = StandardizedTransformer.from_config(build("llama").config)
    assert line(repr(plain), "tower").startswith("none: llama is a text model")
    assert line(repr(plain), "weights").endswith("there are none, it cannot run")
    assert "model.vision" not in repr(plain)
    waiting = StandardizedTransformer(belvedere.checkpoint("shapes-llava"))
    assert line(repr(waiting), "weights").endswith("not loaded yet, the first trace does")
    assert line(repr(waiting), "checkpoint").endswith("shapes-llava")


def test_every_call_that_a_summary_points_to_is_there(llava):
    calls = re.findall(r"^  (?:print\()?(model\.[\w.]+\([^)]*\)|model\.\w+)", repr(llava.model), re.MULTILINE)
    assert len(calls) == 4
    for call in calls:
        assert eval(call, {"model": llava.model}) is not None


def test_the_tree_shows_each_module_once_and_equal_blocks_together():
    model = StandardizedTransformer(build("qwen3_5"))
    shown = model.tree()
    names = [line.strip() for line in shown.splitlines()]
    assert shown.count("(layer_output) -> Residual") == 2  # one recurrent block, one that attends
    assert "(vision): model.visual, above" in names
    assert "(layers): model.language_model.layers, above" in names
    kinds = {type(module).__name__ for module in model._module.modules()} - {"Generator", "Streamer"}
    assert all(f"{kind}(" in shown for kind in kinds)
