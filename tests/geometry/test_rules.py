"""Each rule for a size or a grid, against the function of the processor that has it: many sizes, ties and all."""

from itertools import product

import pytest
import torch
from transformers.image_processing_utils import get_patch_output_size, select_best_resolution
from transformers.image_transforms import get_size_with_aspect_ratio
from transformers.image_utils import SizeDict, get_image_size_for_max_height_width
from transformers.models.cohere2_vision import image_processing_cohere2_vision as cohere2
from transformers.models.gemma4 import image_processing_gemma4 as gemma4
from transformers.models.glm4v import image_processing_glm4v as glm
from transformers.models.got_ocr2 import image_processing_got_ocr2 as got_ocr2
from transformers.models.idefics2 import image_processing_idefics2 as idefics2
from transformers.models.idefics3 import image_processing_idefics3 as idefics3
from transformers.models.kimi_k25 import image_processing_kimi_k25 as kimi
from transformers.models.lfm2_vl import image_processing_lfm2_vl as lfm2
from transformers.models.llama4 import image_processing_llama4 as llama4
from transformers.models.mllama import image_processing_mllama as mllama
from transformers.models.qwen2_vl import image_processing_qwen2_vl as qwen2
from transformers.models.siglip2 import image_processing_siglip2 as siglip2

from belvedere.geometry import budgets, canvases, resizing

SIDES = [
    1,
    2,
    3,
    7,
    16,
    20,
    28,
    32,
    33,
    40,
    48,
    50,
    56,
    64,
    75,
    80,
    96,
    100,
    112,
    120,
    128,
    160,
    200,
    224,
    300,
    336,
    448,
]
SIZES = list(product(SIDES, repeat=2))
TILE = 32


def differing(ours, theirs, sizes=SIZES):
    """The sizes of which the two say different things; theirs has the height first."""
    return [size for size in sizes if tuple(ours(size)) != tuple(theirs(size[1], size[0]))[::-1]]


def picture(high, wide):
    return torch.empty(3, high, wide)


@pytest.mark.parametrize(("edge", "most"), [(20, 40), (32, 33), (64, 200)])
def test_two_edges(edge, most):
    assert not differing(
        lambda size: resizing.shortest_and_longest(size, edge, most),
        lambda high, wide: get_size_with_aspect_ratio((high, wide), edge, most),
    )


@pytest.mark.parametrize("most", [(40, 30), (64, 64), (7, 100)])
def test_within_a_rectangle(most):
    assert not differing(
        lambda size: resizing.within(size, most),
        lambda high, wide: get_image_size_for_max_height_width((high, wide), most[1], most[0]),
    )


@pytest.mark.parametrize(("least", "most"), [(16, 48), (1, 100)])
def test_below_an_edge(least, most):
    size = SizeDict(shortest_edge=least, longest_edge=most)
    assert not differing(
        lambda own: resizing.below(own, most, least),
        lambda high, wide: idefics2.get_resize_output_image_size(picture(high, wide), size),
    )


@pytest.mark.parametrize("longest", [50, 64, 5000])
def test_an_even_side(longest):
    assert not differing(
        lambda size: resizing.below(resizing.evened(size, longest), 4096),
        lambda high, wide: idefics3.get_resize_output_image_size(picture(high, wide), longest),
    )


@pytest.mark.parametrize("canvas", [(64, 32), (64, 64), (96, 160)])
def test_a_canvas_filled_from_above(canvas):
    assert not differing(
        lambda size: resizing.ceiled(size, canvas),
        lambda high, wide: get_patch_output_size(picture(high, wide), canvas[::-1], "channels_first"),
    )


@pytest.mark.parametrize(("factor", "least", "most"), [(16, 256, 4096), (28, 3136, 1003520), (32, 1024, 32 * 32 * 6)])
def test_packed_pictures(factor, least, most):
    sizes = [size for size in SIZES if max(size) <= 200 * min(size)]
    assert not differing(
        lambda size: budgets.packed(size, factor, least, most),
        lambda high, wide: qwen2.smart_resize(high, wide, factor, least, most),
        sizes,
    )
    assert not differing(
        lambda size: budgets.packed(budgets.enlarged(size, factor), factor, least, most, frames=3, temporal=2),
        lambda high, wide: glm.smart_resize(3, high, wide, 2, factor, least, most),
        sizes,
    )


@pytest.mark.parametrize(("least", "most"), [(2, 4), (64, 256)])
def test_packed_tiles(least, most):
    smart = lfm2.Lfm2VlImageProcessor().smart_resize
    assert not differing(
        lambda size: budgets.pooled(size, 32, least * 32**2, most * 32**2),
        lambda high, wide: smart(high, wide, 2, least, most, 16)[::-1],
    )


@pytest.mark.parametrize("most", [16, 24, 256])
def test_a_budget_of_patches(most):
    assert not differing(
        lambda size: budgets.budgeted(size, 16, most),
        lambda high, wide: siglip2.get_image_size_for_max_num_patches(high, wide, 16, most),
    )


@pytest.mark.parametrize(("pool", "tokens"), [(2, 70), (3, 280)])
def test_a_budget_of_tokens(pool, tokens):
    assert not differing(
        lambda size: budgets.soft(size, 16, pool, tokens * pool**2),
        lambda high, wide: gemma4.get_aspect_ratio_preserving_size(high, wide, 16, tokens * pool**2, pool),
    )


@pytest.mark.parametrize(("most", "longest"), [(16, 8), (100, 6), (16384, 512)])
def test_never_enlarged(most, longest):
    assert not differing(
        lambda size: budgets.shrunk(size, 14, most, longest),
        lambda high, wide: kimi.navit_resize(high, wide, 14, 2, most, longest)[0],
    )


@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 4), (1, 12), (4, 4), (2, 10), (3, 7)])
def test_the_closest_grid(least, most):
    choices = canvases.grids(most, least)
    assert not differing(
        lambda size: canvases.closest(size, (TILE, TILE), choices),
        lambda high, wide: got_ocr2.get_optimal_tiled_canvas((high, wide), (TILE, TILE), least, most)[::-1],
    )
    processor = lfm2.Lfm2VlImageProcessor()
    assert not differing(
        lambda size: canvases.closest(size, (TILE, TILE), canvases.ordered(most, least)),
        lambda high, wide: processor._get_grid_layout(high, wide, least, most, TILE)[1::-1],
    )


@pytest.mark.parametrize("most", [1, 3, 4, 12, 16])
def test_the_grid_that_resizes_least(most):
    assert not differing(
        lambda size: canvases.least_resized(size, TILE, most),
        lambda high, wide: cohere2.get_optimal_tiled_canvas((high, wide), (TILE, TILE), 1, most)[::-1],
    )


@pytest.mark.parametrize(
    "pinpoints", [[[32, 64], [64, 32], [64, 64]], [[32, 96], [96, 32], [64, 64], [32, 32]]], ids=str
)
def test_the_resolution_that_shows_most(pinpoints):
    assert not differing(
        lambda size: canvases.largest_shown(size, pinpoints),
        lambda high, wide: select_best_resolution((high, wide), pinpoints),
    )


@pytest.mark.parametrize("most", [1, 2, 4, 9])
def test_the_canvas_of_mllama(most):
    def ours(size):
        grid = canvases.canvas(size, TILE, most)
        limits = [min(max(side, TILE), tiles * TILE) for side, tiles in zip(size, grid, strict=True)]
        return (*grid, *resizing.floored(size, (limits[0], limits[1])))

    def theirs(high, wide):
        rows, columns = mllama.get_optimal_tiled_canvas(high, wide, most, TILE)
        inside = mllama.get_image_size_fit_to_canvas(high, wide, rows, columns, TILE)
        return *inside, rows // TILE, columns // TILE

    assert not differing(ours, theirs)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("most", [1, 3, 4, 16])
def test_the_canvas_of_llama4(most, largest):
    resolutions = torch.tensor(llama4.find_supported_resolutions(most, SizeDict(height=TILE, width=TILE)))

    def theirs(high, wide):
        canvas = llama4.get_best_fit((high, wide), resolutions, resize_to_max_canvas=largest)
        limit = canvas if largest else (min(max(high, TILE), canvas[0]), min(max(wide, TILE), canvas[1]))
        inside = llama4.get_max_res_without_distortion((high, wide), limit)
        return *(max(int(side), 1) for side in inside), int(canvas[0]) // TILE, int(canvas[1]) // TILE

    def ours(size):
        grid, inside = canvases.upscaled(size, TILE, most, largest)
        return *grid, *inside

    assert not differing(ours, theirs)
