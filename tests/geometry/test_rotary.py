"""The towers' rotary tables, against transformers' own modules."""

from types import SimpleNamespace

import nnsight  # noqa: F401
import pytest
import torch
from geometry.packs import over_packs
from transformers.models.kimi_k25.modeling_kimi_k25 import Kimi_K25VisionRotaryEmbedding
from transformers.models.pixtral.modeling_pixtral import PixtralVisionRotaryEmbedding
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLVisionRotaryEmbedding
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLVisionRotaryEmbedding
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionRotaryEmbedding

from belvedere import geometry

QWEN = (Qwen2VLVisionRotaryEmbedding, Qwen2_5_VLVisionRotaryEmbedding, Qwen3_5VisionRotaryEmbedding)
TABLES = {
    geometry.rotary_half_split: QWEN,
    geometry.rotary_interleaved: (PixtralVisionRotaryEmbedding,),
    geometry.rotary_alternating: (Kimi_K25VisionRotaryEmbedding,),
}


@pytest.mark.parametrize("ours", TABLES, ids=lambda ours: ours.__name__)
@over_packs
def test_tables_are_transformers_own(ours, pack):
    merge, grids = pack
    ids = geometry.vision_position_ids(grids, merge)
    width, theta = ((8, 10000.0), (16, 10000.0), (24, 500.0))[len(grids) % 3]
    tables = ours(ids, width, theta)
    config = SimpleNamespace(head_dim=width, rope_parameters={"rope_type": "axial", "rope_theta": theta})
    for theirs in TABLES[ours]:
        for table, expected in zip(tables, theirs(config)(torch.zeros(1), ids), strict=True):
            assert table.shape == (len(ids), width)
            torch.testing.assert_close(table, expected, atol=1e-6, rtol=0)


def test_pixtral_s_heads_need_not_share_their_pairs_evenly():
    ids = geometry.vision_position_ids([(1, 3, 5)], 1)
    config = SimpleNamespace(head_dim=6, rope_parameters={"rope_type": "axial", "rope_theta": 10000.0})
    expected = PixtralVisionRotaryEmbedding(config)(torch.zeros(1), ids)
    torch.testing.assert_close(geometry.rotary_interleaved(ids, 6), expected, atol=1e-6, rtol=0)


def test_which_axis_turns_which_pair():
    ids = torch.tensor([[1, 0]])  # one row down, no column across: a pair that is turned is the row's
    turned = {ours: (ours(ids, 8)[1][0] != 0).tolist() for ours in TABLES}
    assert turned[geometry.rotary_half_split] == [True, True, False, False] * 2
    assert turned[geometry.rotary_interleaved] == [True, True, False, False] * 2
    assert turned[geometry.rotary_alternating] == [False, True, False, True] * 2


def test_heads_whose_pairs_cannot_be_shared_are_refused():
    ids = torch.zeros(1, 2)
    for ours in (geometry.rotary_half_split, geometry.rotary_alternating):
        with pytest.raises(ValueError, match="pass a multiple of 4"):
            ours(ids, 6)
    with pytest.raises(ValueError, match="pass an even head_dim"):
        geometry.rotary_interleaved(ids, 5)
