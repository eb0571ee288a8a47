"""Pictures of values: laid over the image they are about, in strips over blocks, or as a plain map; and of a layout.

Each function returns a matplotlib figure that belongs to nobody: save it, or let a notebook show it. `style` alone sets
colours and type. matplotlib is imported when this package is, and by nothing else in Belvedere.
"""

from belvedere.plot.curves import curves
from belvedere.plot.heat import heat
from belvedere.plot.layout import layout
from belvedere.plot.over import over
from belvedere.plot.overlay import picture, strips, words
from belvedere.plot.style import Plot

__all__ = ["Plot", "curves", "heat", "layout", "over", "picture", "strips", "words"]
