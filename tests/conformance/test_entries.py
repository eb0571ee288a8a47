"""Where image information enters the text model, and which values nothing reads."""

import pytest
import torch
from walk import available, path

from belvedere import StandardizedTransformer
from belvedere.components import Note
from belvedere.testing import ROWS, build


def other(inputs):
    """The same prompt over other pictures of the same sizes."""
    return {**inputs, "pixel_values": inputs["pixel_values"].flip(-1) * 0.5}


def test_zeroing_every_entry_makes_the_logits_independent_of_the_pixels(wrapper):
    model, seen = wrapper.model, []
    for inputs in (wrapper.inputs, other(wrapper.inputs)):
        with model.trace(**inputs):
            for entry in model.vision.entries():
                entry.value = 0
            logits = model.logits.save()
        seen.append(logits)
    assert torch.equal(*seen)
    assert not torch.allclose(seen[0], wrapper.logits)


def test_zeroing_every_entry_of_a_video_makes_the_logits_independent_of_it(filmed):
    model, seen, inputs = filmed.model, [], filmed.row.video()
    paths = []
    for shown in (inputs, {**inputs, "pixel_values_videos": inputs["pixel_values_videos"].flip(-1) * 0.5}):
        with model.trace(**shown):
            for entry in model.vision.entries():
                entry.value = 0
                paths.append(entry.path)
            logits = model.logits.save()
        seen.append(logits)
    assert torch.equal(*seen)
    assert "vision.video_features" in paths
    assert "vision.image_features" not in paths


def test_leaving_one_entry_out_lets_the_picture_in(wrapper):
    model = wrapper.model
    for spared, entry in enumerate(model.vision.entries()):
        if entry.found.name in wrapper.row.besides:
            # It is made of the features, so it shows nothing where they are zero.
            continue
        seen = []
        for inputs in (wrapper.inputs, other(wrapper.inputs)):
            with model.trace(**inputs):
                for number, entry in enumerate(model.vision.entries()):
                    if number != spared:
                        entry.value = 0
                logits = model.logits.save()
            seen.append(logits)
        assert not torch.allclose(*seen), model.vision.entries()[spared]


def test_entries_are_named_by_their_standard_paths(wrapper):
    entries = wrapper.model.vision.entries()
    assert entries
    for entry in entries:
        assert repr(entry).startswith(f"{entry.path}: ")


def test_a_text_model_has_no_entries():
    assert StandardizedTransformer(build("llama")).vision.entries() == []


def test_a_note_stands_where_nothing_reads_and_nowhere_else(checkpoint):
    """`test_writing` shows that these very values change no logits; here, that every view of support says so."""
    model = checkpoint.model
    rows = model.support(notes=True)
    noted = {path(host, found) for host, found in available(model) if host.remark(found.name) is not None}
    for host, found in available(model):
        where = path(host, found)
        # `vision.layers[2].self_attn.decays` stands under `vision.layers.decays`, by block where blocks differ.
        before, block, rest = where.partition("layers[")
        held = rows[f"{before}layers.{found.name}" if block else where]
        if isinstance(held, dict):
            held = held.get(int(rest.partition("]")[0]))
        assert isinstance(held, Note) is (where in noted), where
        assert held is None or isinstance(held, Note)


def test_llava_s_last_block_is_noted_in_the_repr_and_in_support(llava):
    rows = llava.model.support(notes=True)
    assert set(rows["vision.layers.layer_output"]) == {2}
    assert "takes the stream of block 1" in rows["vision.layers.layer_output"][2]
    assert "takes the stream of block 1" in rows["vision.tower_output"]
    assert llava.model.support()["vision.layers.layer_output"] is None
    assert "note: nothing reads this block" in repr(llava.model.vision.layers[2])
    assert "note:" not in repr(llava.model.vision.layers[1])


@pytest.mark.parametrize("layer", [3, -2, -4])
def test_the_tower_output_of_another_feature_layer_is_noted_where_a_write_changes_nothing(layer):
    """InternVL takes the normed stream by -1 alone; the same block by its number is the stream before the norm."""
    model = StandardizedTransformer(build("internvl", vision_feature_layer=layer))
    inputs = ROWS["internvl"].inputs()
    with model.trace(**inputs):
        plain = model.logits.save()
    with model.trace(**inputs):
        model.vision.tower_output = 0
        written = model.logits.save()
    note = model.support(notes=True)["vision.tower_output"]
    assert torch.equal(written, plain)
    assert ("patch_embeddings" if layer == -4 else f"block {layer % 4 - 1}") in note
