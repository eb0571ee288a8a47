"""Where patches and image tokens are, as plain numbers on the host: no model, no forward, no device.

A picture reaches a tower in three steps, and each has a file:

`processors`
    the processor resizes the picture, crops or pads it, and perhaps cuts it into tiles, so the tower's pixels are not the
    original's: each `piece` that the tower takes has a `view` of it;
`grid`
    those pixels are cut into equal cells, rows by columns;
`order`
    the tower keeps the cells in an order of its own, which need not be row by row.

`boxes` undoes all three: for each row of a tower, or each image token, its box in the pixels of the original picture.
A box is ``(left, top, right, bottom)``, as Pillow has it; a size is ``(width, height)``.
"""

from belvedere.geometry.boxes import boxes_over
from belvedere.geometry.cells import KINDS, Cell, Cells, Region
from belvedere.geometry.grid import cell_boxes
from belvedere.geometry.grids import Arrangement, Grids
from belvedere.geometry.layout import PatchLayout
from belvedere.geometry.order import inverse, merge_block_order, window_order
from belvedere.geometry.piece import Piece
from belvedere.geometry.processors import pieces
from belvedere.geometry.rows import Shown, tower_rows
from belvedere.geometry.view import View

__all__ = [
    "KINDS",
    "Arrangement",
    "Cell",
    "Cells",
    "Grids",
    "PatchLayout",
    "Piece",
    "Region",
    "Shown",
    "View",
    "boxes_over",
    "cell_boxes",
    "inverse",
    "merge_block_order",
    "pieces",
    "tower_rows",
    "window_order",
]
