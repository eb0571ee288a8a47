"""All that is written on a figure is on it, lies over nothing else that is written, and the figure has a sane size."""

import pytest
import torch
from PIL import Image
from written import check

from belvedere import geometry, plot

UNIT = "change of logit difference, 'northeast' - 'southwest', of the second picture in the prompt"
HEADING = (
    "relevance by gradient of layers.attention_head_outputs\nlogit difference, token 151644 - token 151645, a model"
)


@pytest.mark.parametrize("columns", [2, 40])
@pytest.mark.parametrize("curves", [1, 12])
def test_of_curves(columns, curves):
    names = [f"{number}: text <- all that is not under the object in the second picture" for number in range(curves)]
    values = torch.linspace(-3, 3, columns).expand(curves, -1)
    blocks = [f"{number}-{number + 1}" for number in range(columns)]
    check(plot.curves(values, names=names, columns=blocks, title=HEADING, unit=UNIT))


SIZES = [(30, 20), (1, 500), (2000, 2), (400, 90), (90, 400)]


@pytest.mark.parametrize(("panels", "scale"), [(1, "shared"), (1, "panel"), (5, "panel"), (32, "shared")])
@pytest.mark.parametrize("size", SIZES)
def test_of_panels(size, panels, scale):
    titles = [f"block {number}" for number in range(panels)]
    values, boxes = torch.randn(panels, 6), geometry.cell_boxes(2, 3, size)
    look = {"titles": titles, "heading": HEADING, "unit": UNIT, "scale": scale}
    check(plot.strips(values, boxes, Image.new("RGB", size), **look))


@pytest.mark.parametrize("panels", [1, 12])
@pytest.mark.parametrize("size", SIZES)
def test_of_words(size, panels):
    titles = [f"block {number}" for number in range(panels)]
    values, boxes = torch.rand(panels, 16), geometry.cell_boxes(4, 4, size)
    texts = [["a", "northeastern", "\n", "$x"] * 4] * panels
    image = Image.new("RGB", size)
    check(plot.words(texts, values, boxes, image, titles=titles, heading=HEADING, unit=UNIT))


def test_words_keep_to_their_cells_and_are_not_cut():
    image, boxes = Image.new("RGB", (240, 240)), geometry.cell_boxes(24, 24, (240, 240))
    texts = [["internationalization", "at", "green"] * 192]
    figure = plot.words(texts, torch.rand(1, 576), boxes, image, titles=["t"], heading="h", unit="u")
    figure.draw_without_rendering()
    axes = figure.axes[1]
    wide = axes.get_window_extent().width / 24
    assert all(text.get_window_extent().width <= wide for text in axes.texts)
    assert [text.get_text().replace("\n", "") for text in axes.texts] == texts[0]


@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.parametrize("pictured", [0, 1, 2, 8])
@pytest.mark.parametrize("columns", [3, 60, 600])
def test_of_a_map(rows, pictured, columns):
    each = columns * 2 // 3 // max(pictured, 1)
    spans = [
        (number * (each + 1) + 1, number * (each + 1) + 1 + each, f"image {number}: {each} tokens")
        for number in range(pictured)
        if each > 1 and number * (each + 1) + 1 + each < columns
    ]
    names = [f"{number} internationalizations" for number in range(columns)]
    for start, stop, _ in spans:
        names[start:stop] = [str(number) for number in range(start, stop)]
    blocks = list(range(rows))
    check(plot.heat(torch.randn(rows, columns), rows=blocks, columns=names, spans=spans, title=HEADING, unit=UNIT))


@pytest.mark.parametrize("columns", [1, 64, 600])
def test_of_a_map_of_numbers(columns):
    check(plot.heat(torch.rand(32, columns), rows=range(32), columns=range(columns), title=HEADING, unit=UNIT))


def test_what_has_no_sign_begins_at_zero():
    values = torch.rand(2, 3)
    figure = plot.heat(values, rows=[0, 1], columns=[0, 1, 2], title="t", unit="u", signed=False)
    (mesh,) = figure.axes[0].collections
    assert mesh.norm.vmin == 0
    assert mesh.norm.vmax == pytest.approx(float(values.max()))
