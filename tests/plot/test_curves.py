"""Curves: all that is written beside them is on the figure, and nothing lies over them."""

import pytest
import torch

from belvedere import plot

UNIT = "change of logit difference, token 12345 - token 67890"


@pytest.mark.parametrize("columns", [2, 40])
@pytest.mark.parametrize("name", ["a", "text <- all that is not under the object in the second picture"])
def test_what_is_written_is_on_the_figure_and_not_on_the_curves(columns, name):
    values = torch.linspace(-3, 3, columns).expand(3, -1)
    made = plot.curves(values, names=[name, "b", ""], columns=range(columns), title="knockout", unit=UNIT)
    made.draw_without_rendering()
    (axes,) = made.axes
    drawn = axes.get_window_extent()
    label, legend = axes.yaxis.label.get_window_extent(), axes.get_legend().get_window_extent()
    for box in (label, legend, drawn):
        assert made.bbox.x0 <= box.x0 < box.x1 <= made.bbox.x1
        assert made.bbox.y0 <= box.y0 < box.y1 <= made.bbox.y1
    assert legend.x0 >= drawn.x1
    assert drawn.width > 0.4 * made.bbox.width
    assert axes.get_legend().get_texts()[0].get_text().replace("\n", " ") == name
