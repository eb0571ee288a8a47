"""A tower run by hand is the tower: each step equals what raw hooks see, to the last bit, on every wrapper."""

import copy

import pytest
import torch
from conftest import _built
from staging import WRAPPERS, features_in, features_of
from torch.utils.flop_counter import FlopCounterMode
from truth import first, hooked, input_of, logits_of, logits_with

from belvedere import InputError, StandardizedTransformer, Unavailable
from belvedere.staged import State
from belvedere.testing import ROWS, build

BLOCKLESS = "no blocks to run by hand"


@pytest.fixture(params=WRAPPERS)
def staging(request):
    return _built[request.param, "sdpa"]


@pytest.fixture(params=[(name, attention) for name in WRAPPERS for attention in ("sdpa", "eager")], ids="-".join)
def under_any_attention(request):
    return _built[request.param]


def natives(checkpoint) -> list[str]:
    """The native path of each block of the tower, in the order of the forward."""
    row, vision = checkpoint.row, checkpoint.model.vision
    later = [f"{row.later.path}.{number}" for number in range(len(vision.global_layers))] if row.later else []
    return [*(f"{row.tower}.{number}" for number in range(vision.num_layers)), *later]


def as_patches(held: torch.Tensor) -> torch.Tensor:
    return held[None] if held.ndim == 2 else held


def tensors(state: State) -> list[torch.Tensor]:
    held = [state.hidden, *state.streams.values(), *state.source.values()]
    held += [one for call in state.calls for one in [*call.args, *call.kwargs.values(), *(call.pack or ())]]
    flat = [part for one in held for part in (one if isinstance(one, (tuple, list)) else [one])]
    return [one for one in flat if isinstance(one, torch.Tensor)]


def test_what_is_embedded_is_what_enters_the_first_block(under_any_attention):
    checkpoint = under_any_attention
    state = checkpoint.model.vision.staged.embed(**checkpoint.inputs)
    assert state.block == 0
    assert torch.equal(state.hidden, as_patches(input_of(checkpoint.raw, checkpoint.inputs, natives(checkpoint)[0])))


def test_a_run_of_blocks_ends_in_what_leaves_its_last(under_any_attention):
    checkpoint = under_any_attention
    staged, paths = checkpoint.model.vision.staged, natives(checkpoint)
    seen = hooked(checkpoint.raw, checkpoint.inputs, *paths)
    state = stepped = staged.embed(**checkpoint.inputs)
    for number, path in enumerate(paths, 1):
        stepped = staged.encode(stepped, stop=number)
        assert stepped.block == number
        assert torch.equal(stepped.hidden, as_patches(first(seen[path][2])))
        assert torch.equal(staged.encode(state, 0, number).hidden, stepped.hidden)


def test_the_three_steps_are_the_models_own_image_features(under_any_attention):
    checkpoint = under_any_attention
    features = checkpoint.model.vision.staged.forward(**checkpoint.inputs)
    assert torch.equal(features, features_of(checkpoint.raw, checkpoint))
    with checkpoint.model.trace(**checkpoint.inputs):
        served = checkpoint.model.vision.image_features.save()
    assert torch.equal(features, served.flatten(0, -2))


def test_blocks_are_called_with_what_the_tower_calls_them_with(staging):
    state = staging.model.vision.staged.embed(**staging.inputs)
    paths = natives(staging)
    seen = hooked(staging.raw, staging.inputs, *paths)
    for path, call in zip(paths, state.calls, strict=True):
        args, kwargs, _ = seen[path]
        assert len(call.args) == max(len(args) - 1, 0)
        # What the caller of a whole model asks it to hand out beside the logits is not the tower's.
        asked = {name for name in kwargs if name.startswith("output_") and name not in call.kwargs}
        assert {*call.kwargs, *([call.keyword] if call.keyword else [])} == kwargs.keys() - asked
        pairs = [*zip(call.args, args[1:], strict=True), *((call.kwargs[name], kwargs[name]) for name in call.kwargs)]
        for ours, theirs in pairs:
            ours, theirs = (one if isinstance(one, (tuple, list)) else [one] for one in (ours, theirs))
            for one, other in zip(ours, theirs, strict=True):
                assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_a_saved_state_is_taken_up_where_it_was_left(staging, tmp_path):
    staged = staging.model.vision.staged
    left = staged.encode(staged.embed(**staging.inputs), stop=2)
    left.save(tmp_path / "state.safetensors")
    loaded = State.load(tmp_path / "state.safetensors")
    assert (loaded.block, loaded.reads, loaded.patches) == (left.block, left.reads, left.patches)
    assert loaded.streams.keys() == left.streams.keys()
    assert loaded.source.keys() == left.source.keys()
    for ours, theirs in zip(tensors(loaded), tensors(left), strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    assert torch.equal(staged.merge(staged.encode(loaded)), features_of(staging.raw, staging))


@pytest.mark.parametrize("name", ["llava", "llama4", "mllama", "qwen3_vl"])
def test_a_state_is_taken_up_by_another_process(name, tmp_path):
    checkpoint = _built[name, "sdpa"]
    staged = checkpoint.model.vision.staged
    staged.encode(staged.embed(**checkpoint.inputs), stop=2).save(tmp_path / "state.safetensors")
    other = StandardizedTransformer(build(name))
    loaded = State.load(tmp_path / "state.safetensors")
    features = other.vision.staged.merge(other.vision.staged.encode(loaded))
    assert torch.equal(features, features_of(checkpoint.raw, checkpoint))


def test_an_edit_between_two_blocks_is_the_edit_of_a_raw_hook(staging):
    staged, paths = staging.model.vision.staged, natives(staging)
    embedded = staged.embed(**staging.inputs)
    plain = features_of(staging.raw, staging)
    for number, path in enumerate(paths, 1):
        state = staged.encode(embedded, stop=number)
        features = staged.merge(staged.encode(state.replace(hidden=state.hidden * 0.5 + 0.25)))

        def hook(_module, _args, output):
            edited = first(output) * 0.5 + 0.25
            return (edited,) if isinstance(output, tuple) else edited

        # transformers hands streams out by hooks of its own, which must see the edit.
        handle = staging.raw.get_submodule(path).register_forward_hook(hook, prepend=True)
        try:
            expected = features_of(staging.raw, staging)
        finally:
            handle.remove()
        assert torch.equal(features, expected), path
        reaches = number - 1 <= max(embedded.reads)
        assert torch.equal(features, plain) is not reaches


def test_a_state_is_never_changed(staging):
    staged = staging.model.vision.staged
    state = staged.embed(**staging.inputs)
    before = [one.clone() for one in tensors(state)]
    staged.merge(staged.encode(staged.encode(state, stop=1)))
    assert state.block == 0
    assert not state.streams
    for ours, theirs in zip(tensors(state), before, strict=True):
        assert torch.equal(ours, theirs)


def slots(module) -> dict[str, tuple]:
    """What stands in each module's own forward, and its hooks."""
    return {
        name: (vars(part).get("forward"), dict(part._forward_hooks), dict(part._forward_pre_hooks))
        for name, part in module.named_modules()
    }


def test_a_run_leaves_the_model_as_it_was(staging):
    model, staged = staging.model, staging.model.vision.staged
    # A first run may have transformers install its recorders.
    staged.forward(**staging.inputs)
    before = slots(model._module)
    staged.forward(**staging.inputs)
    assert slots(model._module) == before
    with model.trace(**staging.inputs):
        logits = model.logits.save()
    assert torch.equal(logits, staging.logits)


def test_a_run_that_fails_leaves_the_model_as_it_was(staging):
    model, staged = staging.model, staging.model.vision.staged
    state = staged.encode(staged.embed(**staging.inputs))
    before = slots(model._module)
    for source in ({**state.source, "pixel_values": state.source["pixel_values"][..., :1]}, {}):
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the model says
            staged.merge(State(**{**vars(state), "source": source, "patches": None}))
    with pytest.raises(Exception):  # noqa: B017, PT011
        staged.embed(**{**state.source, "pixel_values": state.source["pixel_values"][..., :1]})
    assert slots(model._module) == before
    assert torch.equal(staged.forward(**staging.inputs), features_of(staging.raw, staging))


def test_a_raw_hook_on_a_block_acts_once(staging):
    """On the untouched weights and on ours: it acts where the block runs, and not where it is answered for."""
    path, calls = natives(staging)[1], []

    def hook(_module, _args, output):
        calls.append(1)
        edited = first(output) + 0.5
        return (edited,) if isinstance(output, tuple) else edited

    # Before transformers' own: registered later it would not be seen where a wrapper asks for hidden states.
    ours, raw = (module.get_submodule(path) for module in (staging.model._module, staging.raw))
    handle = raw.register_forward_hook(hook, prepend=True)
    expected = features_of(staging.raw, staging)
    handle.remove()
    calls.clear()
    handle = ours.register_forward_hook(hook, prepend=True)
    try:
        features = staging.model.vision.staged.forward(**staging.inputs)
    finally:
        handle.remove()
    assert len(calls) == 1
    assert torch.equal(features, expected)


def counted(run) -> FlopCounterMode:
    # It tells modules apart by their gradients.
    with FlopCounterMode(display=False) as counter, torch.enable_grad():
        run()
    return counter


def test_a_replay_costs_the_blocks_that_it_runs(staging):
    staged, paths = staging.model.vision.staged, natives(staging)
    whole = counted(lambda: staging.raw(**staging.inputs)).get_flop_counts()
    each = [sum(next(held for name, held in whole.items() if name.endswith(f".{path}")).values()) for path in paths]
    assert all(each)
    state = staged.embed(**staging.inputs)
    for number in range(len(paths)):
        replay = counted(lambda state=state: staged.encode(state)).get_total_flops() - sum(each[number:])
        # Where the tower makes something of the stream between two blocks, its masks are made anew on the way.
        assert replay == 0 or (any(call.seam for call in state.calls[number:]) and replay < each[number] / 50)
        state = staged.encode(state, stop=number + 1)
    merging, tower = (
        counted(run).get_total_flops()
        for run in (lambda: staged.merge(state), lambda: staged.forward(**staging.inputs))
    )
    embedding = counted(lambda: staged.embed(**staging.inputs)).get_total_flops()
    between = sum(call.seam for call in state.calls)
    assert tower == embedding + sum(each) + merging or (between and tower < embedding + sum(each) * 1.01 + merging)


def test_merging_runs_neither_patch_embedding_nor_blocks(staging):
    staged = staging.model.vision.staged
    state = staged.encode(staged.embed(**staging.inputs))
    ran = []
    modules = [*staged.blocks, staging.model.vision.patch_embed._module]
    parts = [part for module in modules for part in module.modules() if not [*part.children()]]
    handles = [part.register_forward_hook(lambda *_: ran.append(1)) for part in parts]
    staged.merge(state)
    for handle in handles:
        handle.remove()
    # A patch embedding that is one layer is itself answered for, and its hooks are silent.
    assert not ran


def test_the_whole_model_runs_on_a_states_streams(staging):
    staged, paths = staging.model.vision.staged, natives(staging)
    state = staged.encode(staged.embed(**staging.inputs), stop=1)
    edited = staged.encode(state.replace(hidden=state.hidden * 0.5 + 0.25))
    module, inputs = staging.model._module, {**staging.inputs, **staging.row.forward}
    for held, expected in (
        (staged.encode(state), staging.logits),
        (edited, logits_with(staging.raw, staging.inputs, paths[0], lambda output: output * 0.5 + 0.25)),
    ):
        with staged.answered(held):
            assert torch.equal(logits_of(module(**inputs)), expected)
    assert torch.equal(logits_of(module(**inputs)), staging.logits)


def test_a_trace_runs_on_a_states_streams_too(qwen):
    staged = qwen.model.vision.staged
    state = staged.encode(staged.embed(**qwen.inputs), stop=1)
    with staged.answered(staged.encode(state.replace(hidden=state.hidden * 0.5 + 0.25))):
        with qwen.model.trace(**qwen.inputs):
            entering = qwen.model.layers[0].layer_input.save()
            logits = qwen.model.logits.save()
    expected = logits_with(qwen.raw, qwen.inputs, natives(qwen)[0], lambda output: output * 0.5 + 0.25)
    assert torch.equal(logits, expected)
    mask = qwen.inputs["input_ids"] == qwen.model.placeholder("image")
    edited = staged.merge(staged.encode(state.replace(hidden=state.hidden * 0.5 + 0.25)))
    assert torch.equal(entering[mask], edited)


DEEPSTACK = [name for name in WRAPPERS if "deepstack_visual_indexes" in str(ROWS[name].config())]


@pytest.mark.parametrize("name", DEEPSTACK)
def test_deepstack_features_are_what_the_text_stack_adds(name):
    checkpoint = _built[name, "sdpa"]
    staged, stack = checkpoint.model.vision.staged, checkpoint.row.stack
    state = staged.encode(staged.embed(**checkpoint.inputs))
    given = hooked(checkpoint.raw, checkpoint.inputs, stack)[stack][1]["deepstack_visual_embeds"]
    added = staged.deepstack(state)
    assert len(added) == len(given) > 0
    for ours, theirs in zip(added, given, strict=True):
        assert torch.equal(ours, theirs)
    half = staged.encode(staged.embed(**checkpoint.inputs), stop=1)
    edited = staged.encode(half.replace(hidden=half.hidden * 0.5))
    assert not torch.equal(staged.deepstack(edited)[0], added[0])


def test_a_tower_without_deepstack_adds_nothing_between_blocks(llava):
    staged = llava.model.vision.staged
    assert staged.deepstack(staged.encode(staged.embed(**llava.inputs))) == ()


def test_gradients_reach_the_pixels_as_in_the_model(staging):
    def raw(**inputs):
        held = []
        stack = staging.raw.get_submodule(staging.row.stack)
        handle = stack.register_forward_pre_hook(lambda _module, _args, given: held.append(given), with_kwargs=True)
        staging.raw(**inputs)
        handle.remove()
        return features_in(held[0], staging, inputs)

    gradients = []
    for run in (staging.model.vision.staged.forward, raw):
        pixels = staging.inputs["pixel_values"].clone().requires_grad_()
        with torch.enable_grad():
            features = run(**{**staging.inputs, "pixel_values": pixels})
            (features * torch.linspace(-1, 1, features.shape[-1])).sum().backward()
        gradients.append(pixels.grad)
    assert gradients[1].abs().sum() > 0
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl", "mistral3", "gemma4"])
def test_half_precision_is_the_models_own(name):
    checkpoint = _built[name, "sdpa"]
    inputs = {key: held.bfloat16() if held.is_floating_point() else held for key, held in checkpoint.inputs.items()}
    model = StandardizedTransformer(build(name).bfloat16())
    features = model.vision.staged.forward(**inputs)
    assert features.dtype == torch.bfloat16
    assert torch.equal(features, features_of(build(name).bfloat16(), checkpoint, inputs))


def test_a_state_shows_its_shapes(qwen):
    state = qwen.model.vision.staged.embed(**qwen.inputs)
    assert repr(state).splitlines() == [
        "State(",
        "  before block 0, of 3",
        "  hidden: [1, 56, 24], torch.float32, cpu",
        "  blocks get: cu_seqlens [4], max_seqlen None, position_embeddings ([56, 12], [56, 12])",
        "  kept: none",
        "  wrapper gets: pixel_values [56, 384], image_grid_thw [3, 3]",
        ")",
    ]
    assert repr(qwen.model.vision.staged) == "Staged(3 blocks of Qwen3_5VisionBlock: embed, encode, merge)"


def test_llava_needs_no_block_behind_the_one_that_it_reads(llava):
    staged = llava.model.vision.staged
    state = staged.encode(staged.embed(**llava.inputs), stop=2)
    assert state.reads == (1,)
    assert torch.equal(staged.merge(state), features_of(llava.raw, llava))
    with pytest.raises(InputError, match=r"reads the stream of block 1.*run `encode` to the end first"):
        staged.merge(staged.encode(staged.embed(**llava.inputs), stop=1))


def test_another_choice_of_blocks_is_the_calls_own(llava):
    inputs = {**llava.inputs, "vision_feature_layer": [-1, 1]}
    state = llava.model.vision.staged.embed(**llava.inputs, vision_feature_layer=-1)
    assert state.reads == (2,)
    state = llava.model.vision.staged.embed(**inputs)
    assert state.reads == (0, 2)


def test_the_stream_that_enters_the_first_block_can_be_read_too():
    module = build("vipllava", vision_feature_layer=[0, -2])
    model, inputs = StandardizedTransformer(module), ROWS["vipllava"].inputs()
    staged = model.vision.staged
    state = staged.embed(**inputs)
    assert state.reads == (-1, 1)
    raw = build("vipllava", vision_feature_layer=[0, -2])
    checkpoint = _built["vipllava", "sdpa"]
    assert torch.equal(staged.forward(**inputs), features_of(raw, checkpoint))


# What cannot be staged


def test_a_wrapper_without_blocks_says_so():
    with pytest.raises(Unavailable, match=f"{BLOCKLESS}.*; read patch_embeddings"):
        _ = _built["gemma4_unified", "sdpa"].model.vision.staged


def test_every_wrapper_is_staged_or_says_why():
    unstaged = [name for name, row in ROWS.items() if row.tower and name not in WRAPPERS]
    assert unstaged == ["gemma4_unified"]


def test_a_tower_whose_blocks_do_not_run_once_each_says_so():
    def staged(name, change):
        model = StandardizedTransformer(build(name))
        encoder = model._module.model.vision_tower.encoder
        change(encoder)
        model.vision.staged.forward(**ROWS[name].inputs())

    def again(encoder):
        forward = encoder.forward
        encoder.forward = lambda inputs_embeds, **given: forward(forward(inputs_embeds, **given)[0], **given)

    def fewer(encoder):
        layers, forward = encoder.layers, encoder.forward

        def without_the_last(*args, **given):
            encoder._modules["layers"] = torch.nn.ModuleList(layers[:2])
            return forward(*args, **given)

        encoder.forward = without_the_last

    with pytest.raises(RuntimeError, match="more than 1 time"):
        staged("llava", again)
    with pytest.raises(Unavailable, match="ran 2 of its 3 blocks; read its values inside a trace"):
        staged("paligemma", fewer)


def test_a_text_model_says_why_it_has_none():
    with pytest.raises(Unavailable, match="load a vision-language checkpoint"):
        _ = _built["llama", "sdpa"].model.vision.staged


def test_a_model_without_weights_says_to_load_them():
    model = StandardizedTransformer.from_config(ROWS["llava"].config())
    with pytest.raises(InputError, match=r"built without weights.*dispatch=True"):
        _ = model.vision.staged


def test_weights_that_are_not_loaded_yet_are(tmp_path):
    build("llava").save_pretrained(tmp_path)
    model = StandardizedTransformer(tmp_path)
    assert not model.dispatched
    features = model.vision.staged.forward(**ROWS["llava"].inputs())
    assert model.dispatched
    assert torch.equal(features, features_of(build("llava"), _built["llava", "sdpa"]))


def test_a_staged_tower_is_made_once_for_its_weights(llava):
    assert llava.model.vision.staged is llava.model.vision.staged


def test_a_copy_of_a_model_is_staged_on_its_own_weights(qwen):
    before = qwen.model.vision.staged.forward(**qwen.inputs)
    copied = copy.deepcopy(qwen.model)
    assert "_staged" not in qwen.model.vision.__getstate__()
    copied.vision.layers[1].self_attn.proj.weight.mul_(2)
    assert not torch.equal(copied.vision.staged.forward(**qwen.inputs), before)
    assert torch.equal(qwen.model.vision.staged.forward(**qwen.inputs), before)


def test_a_staged_tower_refuses_to_run_inside_a_trace(llava):
    staged = llava.model.vision.staged
    state = staged.encode(staged.embed(**llava.inputs))
    for run in (lambda: staged.embed(**llava.inputs), lambda: staged.encode(state), lambda: staged.merge(state)):
        with pytest.raises(InputError, match="cannot be done inside a trace"):
            with llava.model.trace(**llava.inputs):
                run()
    with llava.model.trace(**llava.inputs):
        logits = llava.model.logits.save()
    assert torch.equal(logits, llava.logits)


@pytest.mark.parametrize(("start", "stop"), [(2, 1), (0, 4), (-1, 2)])
def test_blocks_that_are_not_there_are_refused(llava, start, stop):
    staged = llava.model.vision.staged
    with pytest.raises(InputError, match="are not a run of 0 to 3"):
        staged.encode(staged.embed(**llava.inputs), start, stop)


def test_a_stream_of_another_shape_is_refused(qwen):
    state = qwen.model.vision.staged.embed(**qwen.inputs)
    with pytest.raises(InputError, match=r"\[1, 56, 24\] and the new one \[56, 24\]"):
        state.replace(hidden=state.hidden[0])


def test_a_file_without_a_state_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"held": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="holds no state of a tower"):
        State.load(tmp_path / "other.safetensors")
