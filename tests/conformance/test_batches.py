"""An answer does not depend on the batch it is in or on its padding, and an invoke sees only what is its own."""

import pytest
import torch
from truth import input_of, logits_of
from walk import available, inside, path

from belvedere import InputError

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
#: Values whose rows are padded, so that a solo run's are the last ones.
SKIPPED = ("video_features", "input_size")


def solo(checkpoint, row):
    """One prompt of a row's batch, without its padding, and with its own pictures."""
    return checkpoint.row.solo(row)


def readable(model):
    """Every value but the padded ones, in the order of the forward: all of them can be read in one trace."""
    return [(host, found) for host, found in available(model) if found.name not in SKIPPED]


def values_alone(model, inputs):
    held = []
    with model.trace(**inputs):
        for host, found in readable(model):
            held.append(getattr(host, found.name).save())
    return held


def values_together(model, first, second):
    held, others = [], []
    with model.trace() as tracer:
        with tracer.invoke(**first):
            for host, found in readable(model):
                held.append(getattr(host, found.name).save())
        with tracer.invoke(**second):
            for host, found in readable(model):
                others.append(getattr(host, found.name).save())
    return held, others


def without_padding(where, batched, alone):
    """The batched value cut to the solo run's positions; padding is on the left of every position axis."""
    if isinstance(batched, slice):
        return batched
    if isinstance(batched, (list, tuple)):
        return type(batched)(without_padding(where, one, was) for one, was in zip(batched, alone, strict=True))
    for axis, (ours, theirs) in enumerate(zip(batched.shape, alone.shape, strict=True)):
        if ours > theirs:
            batched = batched.narrow(axis, ours - theirs, theirs)
    return batched


def assert_same(where, ours, theirs):
    if isinstance(ours, slice):
        assert ours == theirs, where
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs), where
        for one, was in zip(ours, theirs, strict=True):
            assert_same(where, one, was)
    elif ours.dtype.is_floating_point:
        finite = theirs > -1e30
        ours, theirs = ours[finite], theirs[finite]
        assert (ours - theirs).abs().max() <= 1e-4 * max(1.0, theirs.abs().max().item()), where
    else:
        assert torch.equal(ours, theirs), where


def assert_untouched(checkpoint, ours, theirs):
    """Equal to the last bit, or nearly where the row says that its neighbours are computed together with it."""
    if checkpoint.row.mingles:
        torch.testing.assert_close(ours, theirs, **CLOSE)
    else:
        assert torch.equal(ours, theirs)


def test_every_value_of_an_invoke_is_that_of_its_own_run(checkpoint):
    first, second = solo(checkpoint, 0), solo(checkpoint, 1)
    together = values_together(checkpoint.model, first, second)
    for batched, inputs in zip(together, (first, second), strict=True):
        alone = values_alone(checkpoint.model, inputs)
        assert len(alone) == len(batched) > 25
        for (host, found), ours, was in zip(readable(checkpoint.model), batched, alone, strict=True):
            where = path(host, found)
            assert_same(where, without_padding(where, ours, was), was)


def test_each_row_of_a_padded_batch_is_its_own_run(checkpoint):
    model = checkpoint.model
    with model.trace(**checkpoint.inputs):
        stream = model.layers[-1].layer_output.save()
        logits = model.logits.save()
    for row in range(2):
        own = solo(checkpoint, row)
        with model.trace(**own):
            alone = model.layers[-1].layer_output.save()
            answer = model.logits.save()
        length = alone.shape[1]
        torch.testing.assert_close(stream[row : row + 1, -length:], alone, **CLOSE)
        torch.testing.assert_close(logits[row : row + 1, -length:], answer, **CLOSE)


def test_changing_the_picture_of_one_row_leaves_the_others_to_the_last_bit(wrapper):
    model, inputs = wrapper.model, wrapper.inputs
    pixels = inputs["pixel_values"].clone()
    own = len(solo(wrapper, 1)["pixel_values"])
    pixels[-own:] = pixels[-own:].flip(-1) * 0.5
    with model.trace(**{**inputs, "pixel_values": pixels}):
        tower = getattr(*inside(model.vision, 1)).save()
        logits = model.logits.save()
    with model.trace(**inputs):
        before = getattr(*inside(model.vision, 1)).save()
    packed = tower.shape[0] == 1
    with model.trace(**solo(wrapper, 0)):
        first = getattr(*inside(model.vision, 1)).save()
    kept = (slice(None), slice(0, first.shape[1])) if packed else slice(0, 1)
    assert torch.equal(tower[kept], before[kept])
    assert_untouched(wrapper, logits[0], wrapper.logits[0])
    assert not torch.allclose(logits[1], wrapper.logits[1])


def test_clean_and_corrupt_in_one_forward_patch_each_other(wrapper):
    """An invoke writes another's features into its own, and answers as the other."""
    model = wrapper.model
    first = solo(wrapper, 0)
    other = {**first, "pixel_values": first["pixel_values"].flip(-1) * 0.5}
    with model.trace(**first):
        clean = model.logits.save()
    fed = [block for block in model.layers if block.support()["deepstack_output"] is None]
    with model.trace() as tracer:
        barrier = tracer.barrier(2)
        with tracer.invoke(**first):
            features = model.vision.image_features
            barrier()
            later = []
            for block in fed:
                later.append(block.deepstack_output)
                barrier()
        with tracer.invoke(**other):
            barrier()
            model.vision.image_features = features
            for block in fed:
                barrier()
                block.deepstack_output = later[-1]
            patched = model.logits.save()
    torch.testing.assert_close(patched, clean, **CLOSE)


@pytest.mark.parametrize("name", ["idefics2", "mistral3", "lfm2_vl"])
def test_smaller_pictures_beside_larger_ones_answer_as_alone(name):
    """Pixels of several invokes are padded to one size, which changes neither features nor logits."""
    from conftest import _built

    checkpoint = _built[name, "sdpa"]
    model, first, second = checkpoint.model, solo(checkpoint, 0), solo(checkpoint, 1)
    for key in ("pixel_values", "pixel_attention_mask"):
        if key in second and "spatial_shapes" in second:
            second[key] = second[key][:, :12]
        elif key in second:
            second[key] = second[key][..., :24, :32]
    with model.trace(**second):
        alone = model.vision.image_features.save()
        answer = model.logits.save()
    with model.trace() as tracer:
        with tracer.invoke(**first):
            model.logits.save()
        with tracer.invoke(**second):
            features = model.vision.image_features.save()
            logits = model.logits.save()
    torch.testing.assert_close(features, alone, **CLOSE)
    torch.testing.assert_close(logits[:, -answer.shape[1] :], answer, **CLOSE)


@pytest.mark.parametrize("value", ["layer_output", "attention_output", "attention_head_outputs"])
def test_an_edit_in_one_invoke_leaves_the_other_alone(wrapper, value):
    model = wrapper.model
    host, value = inside(model.vision, 0, value)
    first, second = solo(wrapper, 0), solo(wrapper, 1)
    with model.trace() as tracer:
        with tracer.invoke(**first):
            plain_first = model.logits.save()
        with tracer.invoke(**second):
            plain_second = model.logits.save()
    for way in ("in place", "assigned"):
        with model.trace() as tracer:
            with tracer.invoke(**first):
                if way == "in place":
                    getattr(host, value)[:] = 0
                else:
                    setattr(host, value, 0)
                edited = model.logits.save()
            with tracer.invoke(**second):
                untouched = model.logits.save()
        assert_untouched(wrapper, untouched, plain_second)
        assert not torch.allclose(edited, plain_first)


def test_a_written_pattern_in_one_invoke_leaves_the_other_alone(wrapper):
    model = wrapper.model
    tower, text = [block.self_attn for block in model.vision.layers][:1], model.layers[1].self_attn
    first, second = solo(wrapper, 0), solo(wrapper, 1)
    with model.trace() as tracer:
        with tracer.invoke(**first):
            plain_first = model.logits.save()
        with tracer.invoke(**second):
            plain_second = model.logits.save()
    with model.trace() as tracer:
        with tracer.invoke(**second):
            for attention in tower:
                for one in attention.segment_probabilities:
                    one[:] = 0
            text.attention_probabilities[:] = 0
            edited = model.logits.save()
        with tracer.invoke(**first):
            untouched = model.logits.save()
    length = plain_first.shape[1]
    torch.testing.assert_close(untouched[:, -length:], plain_first, **CLOSE)
    assert not torch.allclose(edited, plain_second)


def test_a_text_invoke_beside_a_picture_has_no_tower_values(wrapper):
    model = wrapper.model
    text = {"input_ids": torch.tensor([[9, 10, 11, 12]])}
    if "token_type_ids" in wrapper.inputs:
        # Without them, whether PaliGemma sees a prompt both ways is its kernel's choice.
        text["token_type_ids"] = torch.zeros_like(text["input_ids"])
    if wrapper.row.alone:
        with pytest.raises(InputError, match=wrapper.row.alone), model.trace() as tracer:
            with tracer.invoke(**solo(wrapper, 0)):
                features = model.vision.image_features.save()
            with tracer.invoke(**text):
                logits = model.logits.save()
        return
    with model.trace(**text):
        alone = model.logits.save()
    with model.trace() as tracer:
        with tracer.invoke(**solo(wrapper, 0)):
            features = model.vision.image_features.save()
        with tracer.invoke(**text):
            mask = model.vision.image_token_mask.save()
            logits = model.logits.save()
    assert features.shape[0] == (solo(wrapper, 0)["input_ids"] == 5).sum()
    assert not mask.any()
    torch.testing.assert_close(logits[:, -4:], alone, **CLOSE)
    with pytest.raises(InputError, match="its input shows no picture"), model.trace(**text):
        model.vision.image_features.save()


def generated(wrapper, inputs):
    """What an untouched model generates; ``None`` where transformers itself fails, as the row says."""
    if not wrapper.row.ungenerated:
        return wrapper.raw.generate(**inputs, max_new_tokens=3, do_sample=False)
    with pytest.raises(Exception, match=wrapper.row.ungenerated):
        wrapper.raw.generate(**inputs, max_new_tokens=3, do_sample=False)
    with pytest.raises(InputError, match="cannot generate"):
        wrapper.model.generate(**inputs, max_new_tokens=3, do_sample=False)
    return None


def test_prompts_with_other_numbers_of_pictures_and_none_answer_each_as_alone(wrapper):
    model = wrapper.model
    if wrapper.row.alone:
        return
    text = {"input_ids": torch.tensor([[9, 10, 11, 12]])}
    if "token_type_ids" in wrapper.inputs:
        text["token_type_ids"] = torch.zeros_like(text["input_ids"])
    prompts, alone, together = [text, solo(wrapper, 1), solo(wrapper, 0), solo(wrapper, 1)], [], []
    for prompt in prompts:
        with model.trace(**prompt):
            logits = model.logits.save()
        alone.append(logits)
    with model.trace() as tracer:
        for prompt in prompts:
            with tracer.invoke(**prompt):
                together.append(model.logits.save())
    for ours, theirs in zip(together, alone, strict=True):
        torch.testing.assert_close(ours[:, -theirs.shape[1] :], theirs, **CLOSE)


def test_generation_runs_the_tower_once_and_keeps_the_prompts_values(wrapper):
    model, inputs = wrapper.model, solo(wrapper, 1)
    expected = generated(wrapper, inputs)
    if expected is None:
        return
    with model.generate(**inputs, max_new_tokens=3, do_sample=False) as tracer:
        features = model.vision.image_features.save()
        ids = tracer.result.save()
    assert torch.equal(ids, expected)
    assert features.flatten(0, -2).shape[0] == sum(wrapper.row.pictures[wrapper.row.prompts[0] :])
    lengths = []
    with model.generate(**inputs, max_new_tokens=3, do_sample=False) as tracer:
        for _ in tracer.iter[:3]:
            lengths.append(model.layers[0].layer_input.shape[1])
    assert lengths == [inputs["input_ids"].shape[1], 1, 1]


def test_recurrent_values_at_each_step_of_a_generation(qwen):
    model, inputs = qwen.model, solo(qwen, 1)
    mixer = model.layers[0].linear_attn
    states, starts, keys = [], [], []
    with model.generate(**inputs, max_new_tokens=3, do_sample=False) as tracer:
        for _ in tracer.iter[:3]:
            starts.append(mixer.state_input.clone())
            keys.append(mixer.attention_keys.shape[2])
            states.append(mixer.state_output.clone())
    assert keys == [inputs["input_ids"].shape[1], 1, 1]
    for step in (1, 2):
        assert torch.equal(starts[step], states[step - 1])


def test_a_video_is_written_over_its_own_placeholders_and_is_no_picture(filmed):
    from belvedere import InputError

    model, inputs = filmed.model, filmed.row.video()
    fed = [block for block in model.layers if block.support()["deepstack_output"] is None]
    added = []
    with model.trace(**inputs):
        mask = model.vision.video_token_mask.save()
        features = model.vision.video_features.save()
        for block in fed:
            added.append(block.deepstack_output.save())
    entering = input_of(filmed.raw, inputs, f"{filmed.row.blocks}.0")
    assert mask.sum() == inputs["input_ids"].eq(model.placeholder("video")).sum() > 0
    assert torch.equal(entering[mask], features)
    assert [len(one) for one in added] == [12] * len(fed)
    with pytest.raises(InputError, match="a video and no picture; read video_features"), model.trace(**inputs):
        model.vision.image_features.save()
    with pytest.raises(InputError, match="shows no video"), model.trace(**filmed.inputs):
        model.vision.video_features.save()


def test_each_frame_of_a_packed_video_attends_to_itself(packed):
    if packed.row.video is None:
        return
    with packed.model.trace(**packed.row.video()):
        patterns = packed.model.vision.layers[1].self_attn.segment_probabilities.save()
    # Kimi's frames attend to each other.
    frames = [(2, 48, 48)] if packed.name.startswith("kimi") else [(2, 24, 24), (2, 24, 24)]
    assert [tuple(one.shape) for one in patterns] == frames


def test_written_video_features_stand_in_the_text_stream(filmed):
    model, inputs = filmed.model, filmed.row.video()
    with model.trace(**inputs):
        mask = model.vision.video_token_mask.save()
        model.vision.video_features = 0.5
        entering = model.layers[0].layer_input.save()
    assert (entering[mask] == 0.5).all()
    assert not (entering[~mask] == 0.5).any()


def test_a_video_beside_a_tiled_picture_is_written_over_its_own_placeholders():
    from conftest import _built

    checkpoint = _built["llava_onevision_scaled", "sdpa"]
    picture, made = checkpoint.row.solo(0), torch.Generator().manual_seed(1)
    # Two frames of 4 x 4 patches, each pooled to 2 x 2, and a newline after all of them.
    ids = torch.cat([picture["input_ids"], torch.tensor([[9, *[6] * 9, 10]])], dim=1)
    frames = torch.randn(1, 2, 3, 32, 32, generator=made)
    inputs = {**picture, "input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values_videos": frames}
    with checkpoint.model.trace(**inputs):
        pictures = checkpoint.model.vision.image_token_mask.save()
        videos = checkpoint.model.vision.video_token_mask.save()
        split = checkpoint.model.vision.image_features_per_image.save()
        shown = checkpoint.model.vision.video_features.save()
    entering = input_of(checkpoint.raw, inputs, f"{checkpoint.row.blocks}.0")
    assert videos.sum() == 9
    assert torch.equal(entering[videos], shown)
    assert torch.equal(entering[pictures], torch.cat(split))
    alone = {key: held for key, held in inputs.items() if key not in ("pixel_values", "image_sizes")}
    alone["input_ids"] = ids[:, -11:]
    alone["attention_mask"] = torch.ones_like(alone["input_ids"])
    with checkpoint.model.trace(**alone):
        again = checkpoint.model.vision.video_features.save()
    torch.testing.assert_close(again, shown)


def test_a_state_without_a_cache_is_refused(qwen):
    match = r"layers\[0\].linear_attn.state_output has no value in this trace: .*leave use_cache out"
    with pytest.raises(InputError, match=match), qwen.model.trace(**qwen.inputs, use_cache=False):
        qwen.model.layers[0].linear_attn.state_output.save()


def test_gradients_at_values_are_autograds_own(wrapper):
    model, raw, tower = wrapper.model, wrapper.raw, wrapper.row.tower
    truth = {}

    def keep(name):
        def hook(_, args, output):
            held = output[0] if isinstance(output, tuple) else output
            held.retain_grad()
            truth[name] = held

        return hook

    paths = {"tower": f"{tower}.{wrapper.row.blockless or 0}", "text": f"{wrapper.row.blocks}.1"}
    handles = [raw.get_submodule(path).register_forward_hook(keep(name)) for name, path in paths.items()]
    with torch.enable_grad():
        logits_of(raw(**wrapper.inputs))[:, -1].sum().backward()
        with model.trace(**wrapper.inputs):
            patches = getattr(*inside(model.vision, 0))
            stream = model.layers[1].layer_output
            loss = model.logits[:, -1].sum()
            with loss.backward():
                on_stream = stream.grad.save()
                on_patches = patches.grad.save()
    for handle in handles:
        handle.remove()
    raw.zero_grad()
    torch.testing.assert_close(on_stream, truth["text"].grad)
    expected = truth["tower"].grad
    torch.testing.assert_close(on_patches, expected[None] if expected.ndim == 2 else expected)


def test_a_scan_gives_shapes_without_weights():
    import nnsight

    from belvedere import StandardizedTransformer
    from belvedere.testing import ROWS

    model = StandardizedTransformer.from_config(ROWS["llava"].config())
    with model.scan(**ROWS["llava"].inputs()):
        shape = model.layers[1].layer_output.shape
        nnsight.save(shape)
    assert tuple(shape) == (2, 24, 32)


def test_a_value_is_the_same_through_the_remote_path(wrapper):
    """nnsight's dry run of a remote trace: serialized, and run on this machine."""
    model = wrapper.model
    with model.trace(**wrapper.inputs, remote="local"):
        features = model.vision.image_features.save()
        logits = model.logits.save()
    with model.trace(**wrapper.inputs):
        here = model.vision.image_features.save()
    assert torch.equal(features, here)
    assert torch.equal(logits, wrapper.logits)


def test_an_edit_of_the_model_sees_the_whole_batch(llava):
    model = llava.model
    with model.edit() as (_, edited):
        edited.vision.layers[0].layer_output[:] = 0
    with edited.trace(**llava.inputs):
        logits = edited.logits.save()
    with model.trace(**llava.inputs):
        model.vision.layers[0].layer_output[:] = 0
        expected = model.logits.save()
    with model.trace(**llava.inputs):
        plain = model.logits.save()
    assert torch.equal(logits, expected)
    assert torch.equal(plain, llava.logits)


def test_a_session_carries_a_value_from_one_trace_to_the_next(llava):
    model = llava.model
    with model.session():
        with model.trace(**llava.inputs):
            features = model.vision.image_features.clone()
        with model.trace(**llava.inputs):
            model.vision.image_features = features * 0
            logits = model.logits.save()
    assert not torch.allclose(logits, llava.logits)
