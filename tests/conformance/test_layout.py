"""Which patch each row is, and which patches each image token is made of, against what the model computes."""

import pytest
import torch
from truth import first

from belvedere import InputError, Unavailable
from belvedere.geometry import KINDS

PATCH = KINDS.index("patch")


def stream_path(wrapper):
    """The native path of the last tower block (or the module in the place of one) that the wrapper reads."""
    row, vision = wrapper.row, wrapper.model.vision
    return f"{row.tower}.{row.blockless}" if row.blockless else f"{row.tower}.{vision.last_read}"


def dependence(wrapper, tokens, inputs, modality="image"):
    """For each of some image tokens, which rows of the tower's stream it depends on, by gradients in a raw module."""
    module, kept = wrapper.raw, {}

    def read(_, args, output):
        kept["stream"] = first(output)
        kept["stream"].retain_grad()

    def enter(_, args, kwargs):
        kept["text"] = args[0] if args else kwargs["hidden_states"]

    handles = [
        module.get_submodule(stream_path(wrapper)).register_forward_hook(read),
        module.get_submodule(f"{wrapper.row.blocks}.0").register_forward_pre_hook(enter, with_kwargs=True),
    ]
    try:
        with torch.enable_grad():
            module(**inputs)
            at = inputs["input_ids"].eq(wrapper.model.placeholder(modality)).nonzero()[tokens]
            for prompt, position in at.tolist():
                # No even weights, of which a norm would leave nothing.
                spread = kept["text"][prompt, position] @ torch.arange(1.0, kept["text"].shape[-1] + 1)
                (slope,) = torch.autograd.grad(spread, kept["stream"], retain_graph=True)
                yield slope.flatten(0, -2).ne(0).any(-1).nonzero().flatten()
    finally:
        for handle in handles:
            handle.remove()


def some(count):
    return list(range(count))[:: max(1, count // 12)]


def test_an_image_token_is_made_of_the_patches_that_the_layout_names(scattering):
    layout = scattering.model.layout(scattering.inputs)
    tokens = some(len(layout.tokens))
    for token, rows in zip(tokens, dependence(scattering, tokens, scattering.inputs), strict=True):
        named = layout.patches_of(token)
        if layout.mixed[token]:
            # The latents also read each other, and so all of their own picture or tile.
            named = torch.cat([named, *(layout.patches_of(int(other)) for other in layout.mixed.nonzero())]).unique()
            assert set(rows.tolist()) <= set(named.tolist())
            assert set(layout.patches_of(token).tolist()) <= set(rows.tolist())
        else:
            assert sorted(named.tolist()) == rows.tolist(), layout.tokens[token]


def test_tokens_and_patches_name_each_other(scattering):
    layout = scattering.model.layout(scattering.inputs)
    for token in some(len(layout.tokens)):
        for patch in layout.patches_of(token).tolist():
            assert token in layout.readers_of(patch)
    for patch in some(len(layout.patches)):
        for token in layout.readers_of(patch).tolist():
            assert patch in layout.patches_of(token)


def test_every_value_goes_to_its_grids_and_back(wrapper):
    model, tower = wrapper.model, wrapper.model.vision
    with model.trace(**wrapper.inputs):
        layout = tower.layout.save()
        embedded = tower.patch_embeddings.save()
        stream = tower.layers[0].layer_output.save() if tower.num_layers else tower.tower_output.save()
        features = tower.image_features.save()
        text = model.layers[0].layer_output.save()
    held = {"patch_embeddings": embedded, "patches": stream, "tokens": features, "sequence": text}
    if wrapper.row.cross:
        held["image_features"] = features
    for name, value in held.items():
        if name not in layout.arrangements or not len(layout.arrangements[name]):
            assert wrapper.row.cross
            continue
        grids = layout.to_grid(value, of=name)
        assert torch.equal(layout.from_grid(grids), value), name
        assert sum(one[..., 0].numel() for one in grids.maps) + len(grids.rest) == value[..., 0].numel()


def test_a_patch_stands_at_the_same_place_before_the_blocks_and_in_them(wrapper):
    """An edit of one row of the patch embeddings reaches the row of the blocks that the layout calls the same patch."""
    model, tower = wrapper.model, wrapper.model.vision
    if not tower.num_layers:
        return
    layout = model.layout(wrapper.inputs)
    embeddings, rows = layout.arrangements["patch_embeddings"], layout.arrangements["patches"]
    with model.trace(**wrapper.inputs):
        plain = tower.layers[0].layer_input.save()
    for region in range(len(rows.regions)):
        spot = len(rows.placed[region]) // 3
        edited = int(embeddings.placed[region][spot])
        with model.trace(**wrapper.inputs):
            held = tower.patch_embeddings.clone()
            shape = held.shape
            flat = held.reshape(-1, shape[-1])
            flat[edited] += torch.arange(float(shape[-1]))
            tower.patch_embeddings = flat.reshape(shape)
            moved = tower.layers[0].layer_input.save()
        changed = (moved != plain).any(-1).flatten().nonzero().flatten()
        assert changed.tolist() == [int(rows.placed[region][spot])]


def test_every_patch_of_every_picture_has_one_place(wrapper):
    layout = wrapper.model.layout(wrapper.inputs)
    for number, region in enumerate(layout.regions):
        own = layout.patches.region.eq(number)
        places = torch.stack([layout.patches.frame, layout.patches.row, layout.patches.column], 1)[own]
        assert sorted(places.tolist()) == torch.cartesian_prod(*map(torch.arange, region.shape)).tolist()
        assert layout.patches.of_kind("patch")[own].all()
    outside = layout.patches.region.eq(-1)
    assert layout.patches.of_kind("cls", "register", "padding")[outside].all()


def test_rows_and_tokens_of_the_pictures_are_each_once(wrapper):
    layout = wrapper.model.layout(wrapper.inputs)
    shown = wrapper.model.pictures(wrapper.inputs)
    assert layout.images == shown.count
    rows = torch.cat([layout.rows_of(image) for image in range(layout.images)])
    assert sorted(rows.tolist()) == list(range(len(layout.patches)))
    if wrapper.row.cross:
        assert not len(layout.tokens)
        with pytest.raises(InputError, match="its text attends to the patches; ask for rows"):
            layout.tokens_of(0)
        return
    assert tuple(len(layout.tokens_of(image)) for image in range(layout.images)) == shown.tokens
    ids = wrapper.inputs["input_ids"]
    assert (ids[tuple(layout.positions.T)] == wrapper.model.placeholder("image")).all()


def test_inside_an_invoke_the_layout_is_of_its_own_rows(wrapper):
    if wrapper.row.alone or wrapper.row.cross:
        return
    model, tower = wrapper.model, wrapper.model.vision
    layouts, streams, texts = [], [], []
    with model.trace() as tracer:
        for number in range(2):
            with tracer.invoke(**wrapper.row.solo(number)):
                layouts.append(tower.layout)
                streams.append(tower.layers[0].layer_output if tower.num_layers else tower.tower_output)
                texts.append(model.layers[0].layer_output)
        layouts, streams, texts = layouts.save(), streams.save(), texts.save()
    for layout, stream, text in zip(layouts, streams, texts, strict=True):
        assert torch.equal(layout.from_grid(layout.to_grid(stream, of="patches")), stream)
        assert torch.equal(layout.from_grid(layout.to_grid(text, of="sequence")), text)


def test_a_video_is_laid_out_frame_by_frame(filmed):
    inputs = filmed.row.video()
    model, tower = filmed.model, filmed.model.vision
    with model.trace(**inputs):
        layout = tower.video_layout.save()
        stream = (tower.layers[0].layer_output if tower.num_layers else tower.tower_output).save()
        features = tower.video_features.save()
    (shape,) = (region.shape for region in layout.regions)
    assert shape == ((2, 4, 4) if inputs["pixel_values_videos"].ndim == 5 else (2, 4, 6))
    assert layout.to_grid(stream, of="patches")[0].shape[:3] == shape
    assert torch.equal(layout.from_grid(layout.to_grid(stream, of="patches")), stream)
    assert torch.equal(layout.from_grid(layout.to_grid(features, of="tokens")), features)
    tokens = list(range(len(features)))
    for token, rows in zip(tokens, dependence(filmed, tokens, inputs, "video"), strict=True):
        assert sorted(layout.patches_of(token).tolist()) == rows.tolist(), layout.tokens[token]
    own = inputs["input_ids"].eq(model.placeholder("video")).nonzero()
    assert torch.equal(layout.positions, own)


def test_outside_a_trace_the_tower_says_where_to_ask(wrapper):
    with pytest.raises(Unavailable, match=r"no input is running; call model\.layout"):
        wrapper.model.vision.layout  # noqa: B018


def test_an_encoding_does_not_say_how_large_its_pictures_were(wrapper):
    layout = wrapper.model.layout(wrapper.inputs)
    if wrapper.model.family.facts.lines is None:
        assert "pass `sizes=" in layout.unsourced
        with pytest.raises(InputError, match="pass `sizes="):
            layout.patches_in((0, 0, 4, 4))
    assert layout.patches[int(layout.rows_of(0)[-1])].source_box is None


def test_a_text_has_no_layout():
    from belvedere.testing import tiny

    with pytest.raises(InputError, match="the input shows no picture"):
        tiny("llava").model.layout("what is this ?")
    with pytest.raises(Unavailable, match="has no tower"):
        tiny("llama").model.layout("what is this ?")
