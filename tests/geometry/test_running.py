"""What running towers and text models receive, against what their pictures' grids say: raw hooks on tiny models."""

import pytest
import torch
from truth import hooked

from belvedere import geometry
from belvedere.testing import ROWS, build

#: Each tower's rotary tables; those of Pixtral and Kimi keep their patches row by row.
ROTARY = {
    "qwen2_vl": geometry.rotary_half_split,
    "qwen2_5_vl": geometry.rotary_half_split,
    "qwen2_5_omni_thinker": geometry.rotary_half_split,
    "qwen3_vl": geometry.rotary_half_split,
    "qwen3_5": geometry.rotary_half_split,
    "glm4v": geometry.rotary_half_split,
    "kimi_k25": geometry.rotary_alternating,
    "llava_pixtral": geometry.rotary_interleaved,
}
WINDOWED = ("qwen2_5_vl", "qwen2_5_omni_thinker")
TABLES = {
    "qwen3_vl": ("model.visual", "patch_embed", geometry.BILINEAR),
    "qwen3_5": ("model.visual", "patch_embed", geometry.BILINEAR),
    "kimi_k25": ("model.vision_tower", "patch_embed.proj", geometry.BICUBIC),
}
CONVENTIONS = {
    "qwen2_vl": geometry.QWEN2_VL,
    "qwen2_5_vl": geometry.QWEN2_VL,
    "qwen2_5_omni_thinker": geometry.QWEN2_5_OMNI,
    "qwen3_vl": geometry.QWEN3_VL,
    "qwen3_5": geometry.QWEN3_VL,
    "glm4v": geometry.QWEN3_VL,
}


class Running:
    """A tiny model, its encoding, and the grids in it."""

    def __init__(self, name):
        self.row, self.module = ROWS[name], build(name)
        self.inputs = self.row.inputs()
        self.vision = self.module.get_submodule(self.row.tower.rpartition(".")[0]).config
        self.merge = getattr(self.vision, "spatial_merge_size", 1)
        patch = self.vision.patch_size
        if "image_grid_thw" in self.inputs:
            self.grids = self.inputs["image_grid_thw"]
        else:
            self.grids = [(1, height // patch, width // patch) for height, width in self.inputs["image_sizes"].tolist()]

    def hooked(self, path):
        return hooked(self.module, self.inputs, path)[path]

    def block(self, number=0):
        return self.hooked(f"{self.row.tower}.{number}")[1]


@pytest.fixture
def running(name):
    return Running(name)


@pytest.mark.parametrize("name", ROTARY)
def test_the_blocks_of_a_tower_get_the_rotary_tables_of_their_grids(running, name):
    received = running.block()["position_embeddings"]
    ids = geometry.vision_position_ids(running.grids, running.merge)
    if name in WINDOWED:
        vision = running.vision
        order = geometry.vision_window_order(running.grids, vision.window_size, vision.patch_size, running.merge)
        assert not torch.equal(order, torch.arange(len(order)))
        ids = ids[order]
    width = received[0].shape[-1]
    for table, expected in zip(ROTARY[name](ids, width), received, strict=True):
        torch.testing.assert_close(table, expected.view(-1, width), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", [name for name in ROTARY if name != "llava_pixtral"])
def test_the_blocks_of_a_tower_get_the_segments_of_their_grids(running, name):
    vision = running.vision
    full = getattr(vision, "fullatt_block_indexes", range(3))
    for number in range(3):
        if number in full:
            lengths = geometry.vision_seq_lengths(running.grids)
        else:
            lengths = geometry.vision_seq_lengths(
                running.grids, vision.window_size, vision.patch_size, vision.spatial_merge_size
            )
            assert len(lengths) > len(running.grids)
        assert torch.equal(geometry.cu_seqlens(lengths), running.block(number)["cu_seqlens"])


@pytest.mark.parametrize("name", TABLES)
def test_a_tower_adds_the_interpolation_of_its_position_table(running, name):
    path, patches, resampling = TABLES[name]
    tower = running.module.get_submodule(path)
    table = tower.patch_embed.pos_emb.position_embeddings if name == "kimi_k25" else tower.pos_embed.weight
    table = table.detach().reshape(-1, table.shape[-1])
    side = round(len(table) ** 0.5)
    indices, weights = geometry.vision_interpolation(running.grids, side, running.merge, resampling=resampling)
    embedded = running.hooked(f"{path}.{patches}")[2].view(len(indices), -1)
    entering = running.hooked(f"{running.row.tower}.0")[0][0]
    added = (table[indices] * weights[..., None]).sum(1)
    torch.testing.assert_close(embedded + added, entering, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_text_model_gets_the_three_positions_of_each_token(running, name):
    inputs = running.inputs
    positions, _ = geometry.mrope_position_ids(
        inputs["input_ids"],
        running.grids,
        convention=CONVENTIONS[name],
        spatial_merge_size=running.merge,
        image_token_id=5,
        attention_mask=inputs["attention_mask"],
    )
    args, keywords, _ = running.hooked(f"{running.row.blocks.rpartition('.')[0]}.rotary_emb")
    received = keywords.get("position_ids", args[1] if len(args) > 1 else None)
    assert torch.equal(received[-3:], positions)
