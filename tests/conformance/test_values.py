"""Every value is what a raw PyTorch hook sees, and the sums that define them hold."""

import nnsight
import pytest
import torch
from truth import contributions, first, hooked, input_of, output_of
from walk import available, path, running

from belvedere.components.layer import MIXERS


def blocks(checkpoint):
    return [f"{checkpoint.row.blocks}.{number}" for number in range(checkpoint.model.num_layers)]


def attending(model):
    return [number for number, block in enumerate(model.layers) if "self_attn" in vars(block)]


def mixer(block):
    return next(name for name in MIXERS if name in vars(block))


def test_the_text_stream_at_the_image_tokens_is_image_features(scattering):
    with scattering.model.trace(**scattering.inputs):
        mask = scattering.model.vision.image_token_mask.save()
        features = scattering.model.vision.image_features.save()
    entering = input_of(scattering.raw, scattering.inputs, f"{scattering.row.blocks}.0")
    assert features.shape[0] == mask.sum() > 0
    assert torch.equal(entering[mask], features)


def test_image_features_per_image_are_image_features_cut_by_picture(wrapper):
    with wrapper.model.trace(**wrapper.inputs):
        split = wrapper.model.vision.image_features_per_image.save()
        features = wrapper.model.vision.image_features.save()
    assert [len(one) for one in split] == list(wrapper.row.pictures)
    assert torch.equal(torch.cat(split), features.flatten(0, -2))


def test_what_enters_and_leaves_each_text_block_is_what_a_hook_sees(checkpoint):
    model = checkpoint.model
    seen = hooked(checkpoint.raw, checkpoint.inputs, *blocks(checkpoint))
    for number in running(model):
        native = blocks(checkpoint)[number]
        with model.trace(**checkpoint.inputs):
            entering = model.layers[number].layer_input.save()
            leaving = model.layers[number].layer_output.save()
        args, kwargs, output = seen[native]
        assert torch.equal(entering, args[0] if args else kwargs["hidden_states"])
        assert torch.equal(leaving, first(output))


def test_what_each_part_of_a_text_block_adds_is_what_a_hook_sees_and_the_sum_is_the_block(checkpoint):
    model = checkpoint.model
    for number in running(model):
        native, part, further = blocks(checkpoint)[number], mixer(model.layers[number]), []
        with model.trace(**checkpoint.inputs):
            entering = model.layers[number].layer_input.save()
            attention = getattr(model.layers[number], part).attention_output.save()
            mlp = model.layers[number].mlp.mlp_output.save()
            for name in checkpoint.row.also:
                further.append(getattr(model.layers[number], name).save())
            leaving = model.layers[number].layer_output.save()
        parts = (checkpoint.row.cross if part == "cross_attn" else checkpoint.row.added) or (part, "mlp")
        parts = tuple(checkpoint.row.native(one or part) if isinstance(one, str) else one for one in parts)
        parts += tuple(checkpoint.row.also.values())
        truth = contributions(checkpoint.raw, checkpoint.inputs, native, parts)
        for ours, theirs in zip([attention, mlp, *further], truth, strict=True):
            # A mixture may return the tokens of all prompts in a row.
            assert torch.equal(ours, theirs.reshape(ours.shape))
        gain = getattr(checkpoint.raw.get_submodule(native), checkpoint.row.gain) if checkpoint.row.gain else 1.0
        torch.testing.assert_close(sum([entering, attention, mlp, *further]) * gain, leaving, atol=1e-6, rtol=1e-6)


def tower_blocks(wrapper):
    """Each block of the tower, its native path, and the names of what it adds."""
    row = wrapper.row
    lists = [("layers", row.tower, row.parts)] + (
        [(row.later.name, row.later.path, row.later.parts)] if row.later else []
    )
    for listed, native, parts in lists:
        for number, block in enumerate(getattr(wrapper.model.vision, listed)):
            yield block, f"{native}.{number}", parts


def test_the_tower_blocks_are_what_hooks_see_and_the_sum_is_the_block(wrapper):
    model = wrapper.model
    for block, native, parts in tower_blocks(wrapper):
        with model.trace(**wrapper.inputs):
            entering = block.layer_input.save()
            attention = block.self_attn.attention_output.save()
            mlp = block.mlp.mlp_output.save()
            leaving = block.layer_output.save()
        truth = [first(hooked(wrapper.raw, wrapper.inputs, native)[native][2])]
        truth += contributions(wrapper.raw, wrapper.inputs, native, parts)
        truth = [one.unsqueeze(0) if one.ndim == 2 else one for one in truth]
        for ours, theirs in zip((leaving, attention, mlp), truth, strict=True):
            assert torch.equal(ours, theirs)
        torch.testing.assert_close(entering + attention + mlp, leaving, atol=1e-6, rtol=1e-6)


EMBEDDINGS = (torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.Linear)


def convolved(wrapper):
    """Every patch times the patch embedding's weights, by hand: one row per patch, in raster order per picture."""
    inputs, embed = wrapper.inputs, wrapper.model.vision.patch_embed._module
    if "image_position_ids" in inputs:
        if wrapper.row.blockless:
            tower = wrapper.raw.get_submodule(wrapper.row.tower)
            return tower.patch_ln2(tower.patch_ln1(inputs["pixel_values"]) @ embed.weight.T + embed.bias)
        # Gemma 4 takes pixels between 0 and 1, and centres them itself.
        return (2 * (inputs["pixel_values"] - 0.5)) @ embed.weight.T
    projection = next(held for held in embed.modules() if isinstance(held, EMBEDDINGS))
    weight = projection.weight.flatten(1).T
    bias = 0 if projection.bias is None else projection.bias
    pixels = wrapper.row.shown()
    if "spatial_shapes" in inputs:
        return pixels @ weight + bias
    if "image_grid_thw" in inputs:
        return (pixels.flatten(1) @ weight + bias)[None]
    pixels = pixels.flatten(0, -4)
    cut = pixels.unfold(2, 8, 8).unfold(3, 8, 8).permute(0, 2, 3, 1, 4, 5).flatten(3)
    if "image_sizes" not in inputs or wrapper.row.tiles:
        return cut.flatten(1, 2) @ weight + bias
    grids = (inputs["image_sizes"] // 8).tolist()
    return (
        torch.cat([one[:rows, :columns].flatten(0, 1) for one, (rows, columns) in zip(cut, grids, strict=True)])[None]
        @ weight
        + bias
    )


def test_patch_embeddings_are_the_convolution_of_each_patch(wrapper):
    with wrapper.model.trace(**wrapper.inputs):
        rows = wrapper.model.vision.patch_embeddings.save()
    torch.testing.assert_close(rows, convolved(wrapper), atol=1e-5, rtol=1e-5)


def test_position_embeddings_are_what_is_added_to_the_patches(wrapper):
    reason = wrapper.model.vision.support()["vision.position_embeddings"]
    if reason is not None:
        assert "read rotary" in reason or wrapper.row.later
        return
    with wrapper.model.trace(**wrapper.inputs):
        rows = wrapper.model.vision.patch_embeddings.save()
        positions = wrapper.model.vision.position_embeddings.save()
    if "image_position_ids" in wrapper.inputs:
        entering = input_of(wrapper.raw, wrapper.inputs, f"{wrapper.row.tower}.{wrapper.row.blockless or 0}")
        torch.testing.assert_close(rows + positions, entering)
    elif wrapper.row.embedded:
        embedded = input_of(wrapper.raw, wrapper.inputs, wrapper.row.embedded).flatten(0, 1)
        after = rows.shape[1]
        torch.testing.assert_close(rows + positions[:, :after], embedded[:, :after])
    elif "image_grid_thw" not in wrapper.inputs:
        tower = wrapper.row.tower.partition(".encoder.")[0]
        embedded = output_of(wrapper.raw, wrapper.inputs, f"{tower}.embeddings")
        before = embedded.shape[1] - rows.shape[1]
        assert positions.shape in ((1, *embedded.shape[1:]), embedded.shape)
        torch.testing.assert_close(rows + positions[:, before:], embedded[:, before:])
    else:
        entering = input_of(wrapper.raw, wrapper.inputs, f"{wrapper.row.tower}.0")[None]
        normed = wrapper.raw.get_submodule(wrapper.row.pre_norm)(rows) if wrapper.row.pre_norm else rows
        torch.testing.assert_close(normed + positions, entering)


def test_segments_of_a_tower_are_those_of_its_blocks_without_windows(packed):
    with packed.model.trace(**packed.inputs):
        segments = nnsight.save(packed.model.vision.segments)
    whole = getattr(packed.model.vision.config, "fullatt_block_indexes", [0])[0]
    _, kwargs, _ = hooked(packed.raw, packed.inputs, f"{packed.row.tower}.{whole}")[f"{packed.row.tower}.{whole}"]
    assert [one.stop for one in segments] == kwargs["cu_seqlens"][1:].tolist()
    assert [one.start for one in segments] == kwargs["cu_seqlens"][:-1].tolist()


def test_rotary_is_what_the_blocks_get(packed):
    with packed.model.trace(**packed.inputs):
        rotary = packed.model.vision.rotary.save()
    _, kwargs, _ = hooked(packed.raw, packed.inputs, f"{packed.row.tower}.1")[f"{packed.row.tower}.1"]
    assert torch.equal(rotary[0], kwargs["position_embeddings"][0])
    assert torch.equal(rotary[1], kwargs["position_embeddings"][1])


def test_what_the_merger_reads_is_one_row_per_image_token(packed):
    tower = packed.model.vision
    with packed.model.trace(**packed.inputs):
        stream = tower.tower_output.save()
        merged = tower.merged_patches.save()
        written = tower.image_features.save()
    last = f"{packed.row.tower}.{tower.num_layers - 1}"
    path = tower.norm.path.removeprefix("model.") if "norm" in vars(tower) else last
    assert torch.equal(stream[0], first(hooked(packed.raw, packed.inputs, path)[path][2]))
    assert merged.shape == (sum(packed.row.pictures), tower.axis_size("merged_hidden"))
    assert len(merged) == len(written)


def test_tower_output_is_the_last_stream_and_merged_patches_enter_the_mergers_mlp(qwen):
    with qwen.model.trace(**qwen.inputs):
        stream = qwen.model.vision.tower_output.save()
        merged = qwen.model.vision.merged_patches.save()
    seen = hooked(qwen.raw, qwen.inputs, "model.visual.blocks.2", "model.visual.merger.linear_fc1")
    assert torch.equal(stream[0], seen["model.visual.blocks.2"][2])
    assert torch.equal(merged, seen["model.visual.merger.linear_fc1"][0][0])
    assert merged.shape == (14, qwen.model.vision.axis_size("merged_hidden"))


def test_merged_patches_enter_the_projectors_mlp_and_are_blocks_of_patches(wrapper):
    model, facts = wrapper.model, wrapper.model.family.facts
    if not facts.merged:
        return
    path = f"{facts.projector}.{facts.merged}"
    with model.trace(**wrapper.inputs):
        merged = model.vision.merged_patches.save()
        features = model.vision.image_features.save()
    entering = hooked(wrapper.raw, wrapper.inputs, path)[path][0][0]
    entering = entering.flatten(0, -2)
    if len(entering) > len(features):
        # Each picture has as many slots as the largest, its own tokens first.
        slots = entering.unflatten(0, (len(wrapper.row.pictures), -1))
        entering = torch.cat([one[:real] for one, real in zip(slots, wrapper.row.pictures, strict=True)])
    assert torch.equal(merged, entering)
    assert merged.shape == (len(features), model.vision.axis_size("merged_hidden"))


def folded_by_hand(stream, grid, side):
    """Square blocks of a picture's patches ``[patches, width]``, in raster order, the patches of each side by side."""
    rows, columns = grid
    blocks = stream[: rows * columns].unflatten(0, (rows // side, side, columns // side, side))
    return blocks.transpose(1, 2).flatten(2).flatten(0, 1)


@pytest.mark.parametrize(
    ("name", "last", "norm"),
    [
        ("cohere2_vision", "post_layernorm", ""),
        ("idefics3", "post_layernorm", ""),
        ("smolvlm", "post_layernorm", ""),
        ("lfm2_vl", "post_layernorm", "layer_norm"),
        ("aya_vision", "encoder.layers.2", "layernorm"),
    ],
)
def test_merged_patches_are_folded_blocks_of_the_towers_last_stream(name, last, norm):
    from conftest import _built

    checkpoint = _built[name, "sdpa"]
    with checkpoint.model.trace(**checkpoint.inputs):
        merged = checkpoint.model.vision.merged_patches.save()
    tower = checkpoint.row.tower.removesuffix(".encoder.layers")
    stream = output_of(checkpoint.raw, checkpoint.inputs, f"{tower}.{last}")
    grids = checkpoint.inputs.get("spatial_shapes", torch.tensor([[4, 4]] * len(stream))).tolist()
    expected = torch.cat([folded_by_hand(one, grid, 2) for one, grid in zip(stream, grids, strict=True)])
    if norm:
        expected = checkpoint.raw.get_submodule(f"{checkpoint.model.family.facts.projector}.{norm}")(expected)
    torch.testing.assert_close(merged, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["cohere2_vision", "lfm2_vl", "idefics3"])
def test_merged_patches_written_in_one_invoke_leave_the_other_alone(name):
    from conftest import _built

    checkpoint = _built[name, "sdpa"]
    model, plain, edited = checkpoint.model, [], []
    for write, held in ((False, plain), (True, edited)):
        with model.trace() as tracer:
            with tracer.invoke(**checkpoint.row.solo(0)):
                held.append(model.vision.image_features.save())
            with tracer.invoke(**checkpoint.row.solo(1)):
                if write:
                    model.vision.merged_patches = 0
                held.append(model.vision.image_features.save())
    assert torch.equal(plain[0], edited[0])
    # Rows that are all the same are projected to rows that are all the same.
    assert torch.equal(edited[1], edited[1][:1].expand_as(edited[1]))
    assert not torch.allclose(plain[1], edited[1])


def test_llava_reads_the_last_but_one_block_while_tower_output_is_the_last(llava):
    with llava.model.trace(**llava.inputs):
        stream = llava.model.vision.tower_output.save()
    assert torch.equal(stream, output_of(llava.raw, llava.inputs, f"{llava.row.tower}.2"))
    entering = input_of(llava.raw, llava.inputs, "model.multi_modal_projector.linear_1")
    assert torch.equal(entering, output_of(llava.raw, llava.inputs, f"{llava.row.tower}.1")[:, 1:])


def test_the_projector_is_one_envoy_and_its_output_becomes_the_features(wrapper):
    with wrapper.model.trace(**wrapper.inputs):
        projected = wrapper.model.projector.output.save()
        features = wrapper.model.vision.image_features.save()
    if wrapper.row.projected == "with padding":
        projected = projected[(wrapper.inputs["image_position_ids"] >= 0).all(-1)]
    if wrapper.row.projected in ("in order", "with padding"):
        assert torch.equal(projected.reshape(features.shape), features)
        return
    sums, written = projected.flatten(0, -2).sum(-1).tolist(), features.sum(-1).tolist()
    if wrapper.row.projected == "reordered":
        # The merger's rows are in window order, and put back before they are written.
        assert sorted(sums) == sorted(written)
        return
    newline = wrapper.raw.model.image_newline.sum().item() if wrapper.row.tiles else 0
    kept = [one in {*sums, newline} for one in written]
    # Scaled rows are mixtures of several; a picture that is not scaled has its own.
    assert all(kept) is (wrapper.row.projected == "cut")
    assert all(kept[: wrapper.row.pictures[0]])


def test_root_values_are_the_forwards_own(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    with model.trace(**inputs):
        ids = model.input_ids.save()
        mask = model.attention_mask.save()
        size = model.input_size.save()
        embedded = model.token_embeddings.save()
        logits = model.logits.save()
        after = model.next_token_probs.save()
    native = f"{checkpoint.row.stack}.{checkpoint.row.native('embed_tokens')}"
    assert torch.equal(ids, inputs["input_ids"])
    assert torch.equal(mask, inputs["attention_mask"])
    assert tuple(size) == tuple(inputs["input_ids"].shape)
    assert torch.equal(embedded, output_of(checkpoint.raw, inputs, native))
    assert torch.equal(logits, checkpoint.logits)
    torch.testing.assert_close(after, checkpoint.logits[:, -1].softmax(-1))


def test_next_token_probs_are_of_the_last_token_that_is_no_padding(checkpoint):
    inputs = checkpoint.inputs
    if "pixel_values" in inputs:
        inputs = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    ids = inputs["input_ids"].clamp(min=8)
    mask = torch.ones_like(ids)
    mask[0, -3:] = 0
    with checkpoint.model.trace(input_ids=ids, attention_mask=mask):
        after = checkpoint.model.next_token_probs.save()
        logits = checkpoint.model.logits.save()
    torch.testing.assert_close(after[0], logits[0, -4].softmax(-1))
    torch.testing.assert_close(after[1], logits[1, -1].softmax(-1))


def test_a_standard_path_and_its_native_path_are_one_envoy(checkpoint):
    model = checkpoint.model
    for number, native in enumerate(blocks(checkpoint)):
        assert model.layers[number] is model.get(native)
    for name in ("embed_tokens", "norm"):
        assert getattr(model, name) is model.get(f"{checkpoint.row.stack}.{checkpoint.row.native(name)}")
    for number in attending(model):
        assert model.layers[number].self_attn is model.get(checkpoint.row.attention(number))
    if checkpoint.row.tower:
        for block, native, _ in tower_blocks(checkpoint):
            assert block is model.get(native)


def test_native_names_of_the_wrappers_parts(llava, qwen):
    assert llava.model.vision is llava.model.model.vision_tower
    assert llava.model.vision.patch_embed is llava.model.model.vision_tower.embeddings.patch_embedding
    assert llava.model.vision.layers[0].input_layernorm is llava.model.vision.encoder.layers[0].layer_norm1
    assert llava.model.projector is llava.model.model.multi_modal_projector
    assert qwen.model.vision is qwen.model.model.visual
    assert qwen.model.projector is qwen.model.model.visual.merger
    assert qwen.model.vision.layers[0].self_attn is qwen.model.model.visual.blocks[0].attn
    assert qwen.model.vision.layers[0].post_attention_layernorm is qwen.model.vision.blocks[0].norm2


def test_every_value_has_the_shape_that_its_layout_says(checkpoint):
    from belvedere import layouts

    model = checkpoint.model
    seen = read_all(model, checkpoint.inputs)
    for (host, found), held in zip(available(model), seen, strict=True):
        layout = getattr(layouts, found.layout, None)
        if layout is None or not isinstance(held, torch.Tensor):
            continue
        names = layouts.axes(layout)
        assert held.ndim == len(names), path(host, found)
        for name, size in zip(names, held.shape, strict=True):
            if name in FIXED_AXES:
                assert host.axis_size(name) == size, (path(host, found), name)


FIXED_AXES = {"hidden", "per_layer", "vocab", "heads", "kv_heads", "head_dim", "vision_hidden", "merged_hidden"} | {
    "key_heads",
    "value_heads",
    "key_dim",
    "value_dim",
    "experts",
    "routed",
}


def read_all(model, inputs):
    held = []
    with model.trace(**inputs):
        for host, found in available(model):
            if "video" not in found.name:
                held.append(getattr(host, found.name).save())
            else:
                held.append(None)
    return held


def test_reading_every_value_in_one_trace_changes_nothing(any_attention):
    held = read_all(any_attention.model, any_attention.inputs)
    names = [path(host, found) for host, found in available(any_attention.model)]
    assert len(held) == len(names) > 30
    assert torch.equal(held[names.index("logits")], any_attention.logits)


def test_an_axis_that_depends_on_the_input_is_refused(checkpoint):
    with pytest.raises(ValueError, match="read it off a value's shape"):
        checkpoint.model.axis_size("seq")


def test_the_inner_width_is_the_mlps_own_where_its_config_is_adjusted():
    from conftest import _built

    checkpoint = _built["lfm2", "sdpa"]
    assert checkpoint.model.config.intermediate_size == 48
    assert checkpoint.model.intermediate_size == checkpoint.raw.model.layers[0].feed_forward.w1.out_features == 32


def test_sizes_are_the_configs(llava, qwen):
    assert (llava.model.num_layers, llava.model.hidden_size, llava.model.vocab_size) == (3, 32, 64)
    assert (llava.model.num_heads, llava.model.num_kv_heads, llava.model.head_dim) == (4, 2, 12)
    tower = llava.model.vision
    assert (tower.num_layers, tower.vision_hidden_size, tower.num_heads, tower.head_dim) == (3, 24, 3, 8)
    assert (tower.patch_size, tower.image_size, tower.spatial_merge_size, tower.intermediate_size) == (8, 32, 1, 40)
    assert (qwen.model.vision.num_layers, qwen.model.vision.spatial_merge_size) == (3, 2)
    assert qwen.model.vision.layers[0].axis_size("hidden") == 32
    assert qwen.model.vision.layers[0].self_attn.axis_size("vision_hidden") == 24
