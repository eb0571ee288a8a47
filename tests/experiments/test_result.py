"""A result's table, pictures and file."""

from io import StringIO

import pytest
import torch
from PIL import Image
from rich.console import Console

from belvedere import InputError, geometry
from belvedere.experiments import PatchResult


@pytest.fixture
def result():
    return PatchResult(
        effects=torch.tensor([[0.1, 0.9, -0.2], [0.0, 0.25, 0.5]]),
        raw=torch.tensor([[1.0, 9.0, -2.0], [0.0, 2.5, 5.0]]),
        layers=(3, 7),
        positions=((4,), (5, 6), (9,)),
        clean=10.0,
        corrupt=0.0,
        value="layers.layer_output",
        settings={"model": "tiny", "metric": "a metric", "batch_cells": 8},
    )


def test_a_saved_result_is_read_back_whole(result, tmp_path):
    result.save(tmp_path / "result.safetensors")
    back = PatchResult.load(tmp_path / "result.safetensors")
    assert torch.equal(back.effects, result.effects)
    assert torch.equal(back.raw, result.raw)
    rest = ("layers", "positions", "clean", "corrupt", "value", "settings", "axes")
    assert all(getattr(back, name) == getattr(result, name) for name in rest)
    assert repr(back) == repr(result)


def test_another_file_is_no_result(tmp_path):
    from safetensors.torch import save_file

    save_file({"effects": torch.zeros(2)}, tmp_path / "other.safetensors")
    (tmp_path / "words.txt").write_text("words")
    with pytest.raises(InputError, match="holds no patching result"):
        PatchResult.load(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="is no safetensors file"):
        PatchResult.load(tmp_path / "words.txt")
    with pytest.raises(FileNotFoundError):
        PatchResult.load(tmp_path / "nowhere.safetensors")


def test_the_largest_effect_is_found_over_all_blocks_and_in_one(result):
    best = result.largest()
    assert (best.layer, best.positions, best.index) == (3, (5, 6), 1)
    assert best.effect == pytest.approx(0.9)
    assert result.largest(layer=7).positions == (9,)


def test_the_repr_shows_the_shape(result):
    assert repr(result) == (
        "PatchResult(layers.layer_output: effects [layer 2, position 3], clean 10, corrupt 0, "
        "largest 0.900 at block 3, position 5 and 1 more)"
    )


def test_the_table_and_the_page_have_a_line_per_block(result):
    console = Console(width=80, file=StringIO())
    console.print(result.table())
    text = console.file.getvalue()
    assert "0.900" in text
    assert "5 and 1 more" in text
    assert result._repr_html_().count("<tr>") == 3


def test_the_overlay_draws_every_box_and_the_outline_in_each_panel(result):
    boxes = geometry.cell_boxes(1, 3, (30, 20))
    figure = result.overlay(Image.new("RGB", (30, 20)), boxes, outline=(5, 5, 12, 12))
    ground, *panels = [axes for axes in figure.axes if axes.get_title()]
    assert ground.get_title() == "the picture"
    assert not ground.collections
    assert [axes.get_title() for axes in panels] == ["block 3\n-0.20 to 0.90", "block 7\n0.00 to 0.50"]
    for axes, effects in zip(panels, result.effects, strict=True):
        (cells,) = axes.collections
        assert cells.get_array().tolist() == pytest.approx(effects.tolist())
        drawn = [path.get_extents().extents.tolist() for path in cells.get_paths()]
        assert drawn == boxes.tolist()
        assert axes.get_xlim() == (0, 30)
        assert axes.get_ylim() == (20, 0)
        assert cells.norm.vmin == -cells.norm.vmax
        assert cells.norm.vmax == pytest.approx(0.9)
        assert len(axes.patches) == 2
    assert "0 corrupt, 1 clean" in figure.axes[-1].get_ylabel()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_map_has_a_row_per_block_and_a_unit(result):
    figure = result.plot()
    axes, bar = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "7"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "5 and 1 more", "9"]
    assert "0 corrupt, 1 clean" in bar.get_ylabel()


def test_boxes_that_do_not_fit_are_refused(result):
    with pytest.raises(ValueError, match="must be"):
        result.overlay(Image.new("RGB", (30, 20)), geometry.cell_boxes(1, 2, (30, 20)))


def test_importing_belvedere_loads_no_matplotlib():
    import subprocess
    import sys

    code = "import belvedere.experiments, belvedere.cli, sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
