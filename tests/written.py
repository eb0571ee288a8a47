"""What is written on a figure: that it is on it, and lies over nothing else that is written."""

from itertools import combinations

#: Points by which boxes of letters may overlap: they hold room above and below the letters themselves.
NEAR = 2.0
MOST = 4000


def texts_of(figure):
    """Everything that is written, with where it is: not the words in cells, which are cut at their panel."""
    figure.draw_without_rendering()
    held = [figure._suptitle]
    for axes in (inner for outer in figure.axes for inner in (outer, *outer.child_axes)):
        held += [axes.title, axes.xaxis.label, axes.yaxis.label]
        held += axes.get_legend().get_texts() if axes.get_legend() else []
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            shown = [tick for tick in ticks if low - 1e-6 <= tick.get_loc() <= high + 1e-6]
            held += [text for tick in shown for text in (tick.label1, tick.label2)]
    return [(text.get_text(), text.get_window_extent()) for text in held if text.get_visible() and text.get_text()]


def check(figure):
    written = texts_of(figure)
    assert written
    for name, box in written:
        assert figure.bbox.x0 - NEAR <= box.x0 < box.x1 <= figure.bbox.x1 + NEAR, name
        assert figure.bbox.y0 - NEAR <= box.y0 < box.y1 <= figure.bbox.y1 + NEAR, name
    for (one, first), (two, second) in combinations(written, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, down) <= NEAR, f"{one!r} lies over {two!r}"
    wide, tall = figure.get_size_inches() * 110
    assert max(wide, tall) < MOST
    assert min(wide, tall) > 100
