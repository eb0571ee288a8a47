"""Where patches and image tokens are, as plain numbers on the host: no model, no forward, no device.

A picture reaches a tower in three steps, and each has a file:

`processors`
    the processor resizes the picture, crops or pads it, and perhaps cuts it into tiles, so the tower's pixels are not
    the original's: each `piece` that the tower takes has a `view` of it;
`grid`
    those pixels are cut into equal cells, rows by columns;
`order`
    the tower keeps the cells in an order of its own, which need not be row by row.

`boxes` undoes all three: for each row of a tower, or each image token, its box in the pixels of the original picture.
A box is ``(left, top, right, bottom)``, as Pillow has it; a size is ``(width, height)``.

A tower that takes pictures of any size gets many of them in one row, a `pack`, with the grid ``(t, h, w)`` of each.
What transformers computes from the grids alone is here too, for all patches at once:

`positions`
    the row and column of each patch, and the entries of a learned position table that make its embedding;
`segments`
    the runs of rows that attend to each other, and the way into window order;
`rotary`
    the cos and sin by which queries and keys are turned;
`mrope`
    the three positions of each token of the text sequence, where pictures take fewer than they have tokens.
"""

from belvedere.geometry.boxes import boxes_over
from belvedere.geometry.cells import KINDS, Cell, Cells, Region
from belvedere.geometry.grid import cell_boxes
from belvedere.geometry.grids import Arrangement, Grids
from belvedere.geometry.layout import PatchLayout
from belvedere.geometry.mrope import QWEN2_5_OMNI, QWEN2_VL, QWEN2_VL_PAPER, QWEN3_VL, MRope, mrope_position_ids
from belvedere.geometry.order import inverse, merge_block_order, window_order
from belvedere.geometry.piece import Piece
from belvedere.geometry.positions import (
    BICUBIC,
    BILINEAR,
    BILINEAR_BORDERS,
    BILINEAR_ZEROS,
    Resampling,
    vision_frame_ids,
    vision_interpolation,
    vision_position_ids,
)
from belvedere.geometry.processors import pieces
from belvedere.geometry.rotary import rotary_alternating, rotary_half_split, rotary_interleaved
from belvedere.geometry.rows import Shown, tower_rows
from belvedere.geometry.segments import cu_seqlens, vision_clip_lengths, vision_seq_lengths, vision_window_order
from belvedere.geometry.view import View

__all__ = [
    "BICUBIC",
    "BILINEAR",
    "BILINEAR_BORDERS",
    "BILINEAR_ZEROS",
    "KINDS",
    "QWEN2_5_OMNI",
    "QWEN2_VL",
    "QWEN2_VL_PAPER",
    "QWEN3_VL",
    "Arrangement",
    "Cell",
    "Cells",
    "Grids",
    "MRope",
    "PatchLayout",
    "Piece",
    "Region",
    "Resampling",
    "Shown",
    "View",
    "boxes_over",
    "cell_boxes",
    "cu_seqlens",
    "inverse",
    "merge_block_order",
    "mrope_position_ids",
    "pieces",
    "rotary_alternating",
    "rotary_half_split",
    "rotary_interleaved",
    "tower_rows",
    "vision_clip_lengths",
    "vision_frame_ids",
    "vision_interpolation",
    "vision_position_ids",
    "vision_seq_lengths",
    "vision_window_order",
    "window_order",
]
