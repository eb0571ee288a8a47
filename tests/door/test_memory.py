"""The table of what values weigh counts what a trace gives."""

import re

import pytest
import torch
from door.test_pictures import loaded

from belvedere import StandardizedTransformer
from belvedere.testing import tiny

made = loaded("_made")
memory = made._memory

LLAVA = (
    *("token_embeddings", "logits", "next_token_probs", "vision.patch_embeddings", "vision.image_features"),
    *("vision.layers.attention_probabilities", "vision.layers.mlp_output", "layers.attention_keys"),
    *("layers.attention_scores", "layers.attention_head_outputs", "layers.layer_output"),
)
QWEN = (
    *("vision.position_embeddings", "vision.merged_patches", "vision.layers.segment_probabilities"),
    *("vision.layers.attention_queries", "layers.attention_probabilities", "layers.deepstack_output"),
)


def served(model: StandardizedTransformer, path: str):
    """The envoy of the first block, or of what there is once, that has the value of this path, and its name there."""
    prefix, name = re.fullmatch(r"((?:vision\.)?(?:layers\.)?)(\w+)", path).groups()
    return next(host for start, host in memory.hosts(model) if start == prefix and name in host.values()), name


@pytest.mark.parametrize(("row", "paths"), [("llava", LLAVA), ("qwen3_vl", QWEN)])
def test_a_trace_gives_as_many_numbers_as_the_table_counts(row, paths):
    small = tiny(row)
    model = small.model
    prompt, images = "what is <image> ?", small.images[:1]
    if row != "llava":
        prompt = "what is <start><image><end> ?"
    layout = model.layout(prompt, images=images)
    given = memory.counts(patches=len(layout.patches), tokens=len(layout.tokens))
    with model.trace(prompt, images=images):
        size = model.input_size
        length = int(size[1])
        shown = torch.tensor(length).save()
    given.update(seq=int(shown), keys=int(shown))
    counted = memory.weighed(model, given)
    for path in paths:
        host, name = served(model, path)
        with model.trace(prompt, images=images):
            value = getattr(host, name)
            held = value if isinstance(value, torch.Tensor) else torch.cat([one.flatten() for one in value])
            found = held.clone().save()
        assert counted[path][0] == found.numel(), path


def test_the_table_is_of_the_two_checkpoints_it_says():
    llava, qwen = memory.plans()
    assert (memory.model(llava.name).num_layers, memory.model(qwen.name).num_layers) == (32, 36)
    counted = memory.weighed(memory.model(llava.name), llava.counts)
    assert counted["layers.layer_output"] == [640 * 4096] * 32
    assert counted["vision.layers.attention_probabilities"] == [16 * 577 * 577] * 24
    assert len(memory.weighed(memory.model(qwen.name), qwen.counts)["layers.deepstack_output"]) == 3
    assert memory.size(640 * 4096 * memory.WIDTH) == "5.24 MB"
