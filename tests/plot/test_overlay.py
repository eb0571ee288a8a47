"""What is laid over a picture can be read: its title, its words and its colour bars."""

import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image

from belvedere import geometry, plot
from belvedere.plot.style import GROUND, INK

PICTURE = Image.new("RGB", (30, 20))
BOXES = geometry.cell_boxes(1, 3, PICTURE.size)
LONG = "of the logit difference, token 151644 - token 151645, the largest is 1"


def within(figure, title):
    """Whether a title lies inside of its figure, and above its panels."""
    figure.draw_without_rendering()
    box = title.get_window_extent()
    tops = [axes.title.get_window_extent().y1 for axes in figure.axes if axes.get_title()]
    return box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= max(tops)


@pytest.mark.parametrize("panels", [1, 2, 5])
def test_a_long_title_is_broken_where_the_figure_ends(panels):
    titles = [f"block {number}" for number in range(panels)]
    values = torch.rand(panels, 3)
    figure = plot.strips(values, BOXES, PICTURE, titles=titles, heading="relevance by gradient", unit=LONG)
    assert within(figure, figure._suptitle)
    texts = [["red", "green", "blue"]] * panels
    figure = plot.words(texts, values, BOXES, PICTURE, titles=titles, heading="layers.layer_output", unit=LONG)
    assert within(figure, figure._suptitle)


def test_one_panel_has_no_other_scale_to_be_told_from():
    one = plot.strips(torch.rand(1, 3), BOXES, PICTURE, titles=["a"], heading="h", unit="u")
    two = plot.strips(torch.rand(2, 3), BOXES, PICTURE, titles=["a", "b"], heading="h", unit="u")
    own = plot.strips(torch.rand(2, 3), BOXES, PICTURE, titles=["a", "b"], heading="h", unit="u", scale="panel")
    assert "scale" not in one._suptitle.get_text()
    assert "one scale for all panels" in two._suptitle.get_text()
    assert "each panel has its own scale" in own._suptitle.get_text()
    with pytest.raises(ValueError, match="known: shared, panel"):
        plot.strips(torch.rand(1, 3), BOXES, PICTURE, titles=["a"], heading="h", unit="u", scale="own")


def test_words_are_light_where_their_boxes_are_dark():
    values = torch.tensor([[0.1, 0.5, 1.0]])
    figure = plot.words([["a", "b", "c"]], values, BOXES, PICTURE, titles=["t"], heading="h", unit="u")
    assert [to_hex(text.get_color()) for text in figure.axes[1].texts] == [INK, INK, GROUND]


@pytest.mark.parametrize(
    ("values", "ends"), [([0.0, 0.2, 0.5], (0, 0.5)), ([-0.5, 0.0, 0.2], (-0.5, 0.5)), ([-0.5, -0.2, -0.1], (-0.5, 0))]
)
def test_a_colour_bar_shows_no_half_that_is_not_used(values, ends):
    held = torch.tensor([values])
    figure = plot.heat(held, rows=[0], columns=[0, 1, 2], title="t", unit="u")
    assert figure.axes[1].get_ylim() == pytest.approx(ends)
    figure = plot.strips(held, BOXES, PICTURE, titles=["t"], heading="h", unit="u")
    assert figure.axes[-1].get_ylim() == pytest.approx(ends)
    figure = plot.strips(held, BOXES, PICTURE, titles=["t"], heading="h", unit="u", scale="panel")
    assert figure.axes[1].child_axes[0].get_ylim() == pytest.approx(ends)
