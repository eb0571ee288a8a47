"""Patterns equal what eager attention computes, under every implementation, and a written one lands."""

import pytest
import torch
from truth import hooked, output_of
from walk import running

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def attending(model, *parts):
    """The text blocks that have softmax attention, over text or over a picture, and run."""
    parts = parts or ("self_attn", "cross_attn")
    return [number for number in running(model) if any(part in vars(model.layers[number]) for part in parts)]


def attention_of(block):
    """A block's softmax attention, and its name."""
    part = "self_attn" if "self_attn" in vars(block) else "cross_attn"
    return getattr(block, part), part


def repeated(values, heads):
    return values.repeat_interleave(heads // values.shape[1], dim=1)


def test_probabilities_equal_eager_attentions_own(any_attention):
    model, inputs = any_attention.model, any_attention.inputs
    rows = inputs["attention_mask"].bool()
    for number in attending(model):
        attention, part = attention_of(model.layers[number])
        native = any_attention.row.attention(number, part)
        truth = hooked(any_attention.eager, inputs, native)[native][2][1]
        with model.trace(**inputs):
            pattern = attention.attention_probabilities.save()
        # A padding position attends to nothing; what its row holds is the kernel's choice.
        keep = rows[:, None, :, None].expand_as(pattern)
        # The stream that the truth's queries are of has passed other kernels on its way.
        torch.testing.assert_close(pattern[keep], truth[keep], atol=1e-4, rtol=1e-3)
        assert (pattern[keep].reshape(-1, pattern.shape[-1]).sum(-1) - 1).abs().max() < 1e-5


def test_llava_tower_probabilities_equal_eager_attentions_own(llava):
    native = f"{llava.row.tower}.1.self_attn"
    truth = hooked(llava.eager, llava.inputs, native)[native][2][1]
    with llava.model.trace(**llava.inputs):
        pattern = llava.model.vision.layers[1].self_attn.attention_probabilities.save()
        split = llava.model.vision.layers[1].self_attn.segment_probabilities.save()
    torch.testing.assert_close(pattern, truth, **CLOSE)
    assert len(split) == 2
    torch.testing.assert_close(split[1], truth[1], **CLOSE)


def test_scores_are_scaled_products_under_the_causal_and_the_padding_mask(any_attention):
    model, inputs = any_attention.model, any_attention.inputs
    number = attending(model, "self_attn")[0]
    with model.trace(**inputs):
        queries = model.layers[number].self_attn.attention_queries.save()
        keys = model.layers[number].self_attn.attention_keys.save()
        scores = model.layers[number].self_attn.attention_scores.save()
    length = queries.shape[2]
    scale = any_attention.row.scale or queries.shape[-1] ** -0.5
    expected = queries @ repeated(keys, queries.shape[1]).transpose(2, 3) * scale
    if any_attention.row.cap is not None:
        expected = torch.tanh(expected / any_attention.row.cap) * any_attention.row.cap
    seen = torch.ones(length, length).tril().bool()
    if getattr(model.config, "layer_types", [""])[0] == "sliding_attention":
        seen &= ~seen.tril(-model.config.sliding_window)
    if getattr(model.config, "layer_types", [""])[0] == "chunked_attention":
        # Chunks are counted from a row's first token.
        chunk = (
            torch.arange(length) - (inputs["attention_mask"] == 0).sum(-1)[:, None]
        ) // model.config.attention_chunk_size
        seen = seen & (chunk[:, None, :, None] == chunk[:, None, None, :])
    seen = seen & inputs["attention_mask"].bool()[:, None, None, :]
    if any_attention.row.attends.endswith("both ways"):
        types = inputs["token_type_ids" if "token_type_ids" in inputs else "mm_token_type_ids"].bool()
        types = (types ^ (any_attention.row.attends == "prompt both ways")) & inputs["attention_mask"].bool()
        # Each run of such tokens sees itself alone.
        run = (types & ~torch.nn.functional.pad(types, (1, 0))[:, :-1]).cumsum(-1) * types
        seen = seen | ((run[:, None, :, None] == run[:, None, None, :]) & types[:, None, :, None])
    seen = seen.expand_as(scores)
    torch.testing.assert_close(scores[seen], expected[seen], **CLOSE)
    real = inputs["attention_mask"].bool()[:, None, :, None].expand_as(scores)
    assert (scores[~seen & real] < -1e30).all()


def test_probabilities_times_values_are_the_head_outputs(any_attention):
    model, inputs = any_attention.model, any_attention.inputs
    rows = inputs["attention_mask"].bool()
    for number in attending(model):
        attention, _ = attention_of(model.layers[number])
        with model.trace(**inputs):
            values = attention.attention_values.save()
            scores = attention.attention_scores.save()
            pattern = attention.attention_probabilities.save()
            outputs = attention.attention_head_outputs.save()
        keep = rows[:, None, :, None].expand_as(outputs)
        mixed = pattern @ repeated(values, pattern.shape[1])
        torch.testing.assert_close(mixed[keep], outputs[keep], **CLOSE)
        torch.testing.assert_close(scores.softmax(-1), pattern, **CLOSE)


def test_head_outputs_times_gate_through_the_output_projection_are_what_is_added(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    for number in attending(model):
        attention, part = attention_of(model.layers[number])
        gated = attention.support()["attention_gate"] is None
        with model.trace(**inputs):
            outputs = attention.attention_head_outputs.save()
            gate = (attention.attention_gate if gated else torch.ones(1)).save()
            added = attention.output[0].save()
        mixed = outputs * gate
        projected = checkpoint.raw.get_submodule(
            f"{checkpoint.row.attention(number, part)}.{checkpoint.row.native('o_proj')}"
        )
        torch.testing.assert_close(projected(mixed.transpose(1, 2).flatten(2)), added, **CLOSE)
    assert gated is checkpoint.name.startswith("qwen3_5")


@pytest.mark.parametrize("value", ["attention_probabilities", "attention_scores"])
@pytest.mark.parametrize("way", ["in place", "assigned"])
def test_a_written_pattern_replaces_the_blocks_head_outputs(any_attention, value, way):
    model, inputs = any_attention.model, any_attention.inputs
    number = attending(model)[-1]
    attention, _ = attention_of(model.layers[number])
    with model.trace(**inputs):
        values = attention.attention_values.save()
        pattern = attention.attention_probabilities.save()
    written = torch.zeros_like(pattern)
    written[..., 3] = 1.0
    target = written if value == "attention_probabilities" else torch.where(written.bool(), 0.0, -1e30)
    if way == "assigned":
        with model.trace(**inputs):
            setattr(attention, value, target)
            outputs = attention.attention_head_outputs.save()
            logits = model.logits.save()
    else:
        with model.trace(**inputs):
            getattr(attention, value)[:] = target
            outputs = attention.attention_head_outputs.save()
            logits = model.logits.save()
    expected = repeated(values, outputs.shape[1])[:, :, 3:4].expand_as(outputs)
    torch.testing.assert_close(outputs, expected, **CLOSE)
    assert not torch.allclose(logits, any_attention.logits)


def test_segment_probabilities_equal_a_softmax_by_hand(qwen):
    """Two pictures and a third in one pack: each picture's patches attend to its own alone."""
    attention = qwen.model.vision.layers[1].self_attn
    with qwen.model.trace(**qwen.inputs):
        queries = attention.attention_queries.save()
        keys = attention.attention_keys.save()
        values = attention.attention_values.save()
        patterns = attention.segment_probabilities.save()
        outputs = attention.attention_head_outputs.save()
        segments = attention.segments
        cut = attention.per_segment(outputs)
        nnsight_save(segments, cut)
    assert segments == [slice(0, 24), slice(24, 48), slice(48, 56)]
    assert [tuple(one.shape) for one in patterns] == [(2, 24, 24), (2, 24, 24), (2, 8, 8)]
    for number, run in enumerate(segments):
        scores = queries[0, :, run] @ keys[0, :, run].transpose(1, 2) / 12**0.5
        torch.testing.assert_close(patterns[number], scores.softmax(-1), **CLOSE)
        torch.testing.assert_close(patterns[number] @ values[0, :, run], outputs[0, :, run], **CLOSE)
        assert torch.equal(cut[number], outputs[:, :, run])


def nnsight_save(*values):
    import nnsight

    for one in values:
        nnsight.save(one)


def test_segment_probabilities_are_the_patterns_of_an_eager_load(qwen):
    """The eager interface returns each call's pattern: watch it from outside."""
    from transformers.models.qwen3_5 import modeling_qwen3_5 as file

    seen = []
    original = file.eager_attention_forward

    def watching(module, *args, **kwargs):
        result = original(module, *args, **kwargs)
        if module is qwen.eager.model.visual.blocks[2].attn:
            seen.append(result[1][0])
        return result

    file.eager_attention_forward = watching
    try:
        qwen.eager(**qwen.inputs)
    finally:
        file.eager_attention_forward = original
    with qwen.model.trace(**qwen.inputs):
        patterns = qwen.model.vision.layers[2].self_attn.segment_probabilities.save()
    assert len(seen) == len(patterns) == 3
    for ours, theirs in zip(patterns, seen, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)


@pytest.mark.parametrize("way", ["in place", "entry", "assigned"])
@pytest.mark.parametrize("name", ["llava", "qwen3_5"])
def test_written_segment_probabilities_replace_that_pictures_head_outputs(name, way, llava, qwen):
    checkpoint = {"llava": llava, "qwen3_5": qwen}[name]
    model, inputs = checkpoint.model, checkpoint.inputs
    attention = model.vision.layers[0].self_attn
    with model.trace(**inputs):
        values = attention.attention_values.save()
        patterns = attention.segment_probabilities.save()
        before = attention.attention_head_outputs.save()
    uniform = torch.full_like(patterns[1], 1 / patterns[1].shape[-1])
    others = [one.clone() for one in patterns]
    others[1] = uniform
    if way == "in place":
        with model.trace(**inputs):
            attention.segment_probabilities[1][:] = uniform
            after = attention.attention_head_outputs.save()
            logits = model.logits.save()
    elif way == "entry":
        with model.trace(**inputs):
            attention.segment_probabilities[1] = uniform
            after = attention.attention_head_outputs.save()
            logits = model.logits.save()
    else:
        with model.trace(**inputs):
            attention.segment_probabilities = others
            after = attention.attention_head_outputs.save()
            logits = model.logits.save()
    own = (slice(1, 2), slice(None)) if name == "llava" else (slice(0, 1), slice(24, 48))
    mean = values[own[0], :, own[1]].mean(2, keepdim=True).expand_as(after[own[0], :, own[1]])
    torch.testing.assert_close(after[own[0], :, own[1]], mean, **CLOSE)
    rest = (slice(0, 1), slice(None)) if name == "llava" else (slice(0, 1), slice(0, 24))
    torch.testing.assert_close(after[rest[0], :, rest[1]], before[rest[0], :, rest[1]], **CLOSE)
    assert not torch.allclose(logits, checkpoint.logits)


def test_a_pattern_read_in_bfloat16_leaves_the_forwards_kernel_alone(llava):
    """Logits with and without the read are equal to the last bit, where a kernel change would show."""
    from belvedere import StandardizedTransformer
    from belvedere.testing import build

    inputs = {key: held.bfloat16() if held.is_floating_point() else held for key, held in llava.inputs.items()}
    plain = build("llava").bfloat16()(**inputs).logits
    model = StandardizedTransformer(build("llava").bfloat16())
    with model.trace(**inputs):
        tower = model.vision.layers[0].self_attn.attention_probabilities.save()
        text = model.layers[0].self_attn.attention_probabilities.save()
        logits = model.logits.save()
    assert tower.dtype == text.dtype == torch.bfloat16
    assert torch.equal(logits, plain)


def delta_rule(state, queries, keys, values, betas, decays):
    """The gated delta rule, position by position: what is read, and the state that is left."""
    queries, keys = (torch.nn.functional.normalize(one, dim=-1).repeat_interleave(2, dim=1) for one in (queries, keys))
    outputs = []
    for step in range(queries.shape[2]):
        query, key, value = queries[:, :, step], keys[:, :, step], values[:, :, step]
        state = state * decays[:, :, step].exp()[..., None, None]
        error = value - torch.einsum("bhk,bhkv->bhv", key, state)
        state = state + torch.einsum("bhk,bhv->bhkv", key, error * betas[:, :, step, None])
        outputs.append(torch.einsum("bhk,bhkv->bhv", query / 8**0.5, state))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("start", ["zeros", "in place", "assigned"])
def test_a_recurrent_mixer_is_the_delta_rule_by_hand_from_whatever_state_it_starts(qwen, start):
    model, inputs = qwen.model, qwen.inputs
    mixer = model.layers[0].linear_attn
    with model.trace(**inputs):
        if start == "in place":
            mixer.state_input[:] = 2.0
        elif start == "assigned":
            mixer.state_input = torch.full((2, 4, 8, 6), 2.0)
        else:
            initial = mixer.state_input.save()
        queries = mixer.attention_queries.save()
        keys = mixer.attention_keys.save()
        values = mixer.attention_values.save()
        betas = mixer.betas.save()
        decays = mixer.decays.save()
        left = mixer.state_output.save()
        read = mixer.norm.input.save()
        heads = mixer.state_head_outputs.save()
        added = mixer.attention_output.save()
    if start == "zeros":
        assert initial.shape == (2, 4, 8, 6)
        assert initial.abs().max() == 0
        assert torch.equal(added, output_of(qwen.raw, inputs, "model.language_model.layers.0.linear_attn"))
    assert (decays <= 0).all()
    assert ((betas > 0) & (betas < 1)).all()
    state = torch.zeros(2, 4, 8, 6) if start == "zeros" else torch.full((2, 4, 8, 6), 2.0)
    outputs, state = delta_rule(state, queries, keys, values, betas, decays)
    # transformers adds 1e-6 under the root of the length, we do not.
    torch.testing.assert_close(left, state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(read.view(2, -1, 4, 6), outputs, atol=1e-4, rtol=1e-4)
    projection = qwen.raw.get_submodule("model.language_model.layers.0.linear_attn.out_proj")
    assert heads.shape == (2, 4, len(read) // 8, 6)
    torch.testing.assert_close(projection(heads.transpose(1, 2).flatten(2)), added)


@pytest.mark.parametrize("written", ["in place", "assigned"])
def test_what_a_recurrent_mixer_s_head_reads_can_be_written(qwen, written):
    mixer = qwen.model.layers[0].linear_attn
    with qwen.model.trace(**qwen.inputs):
        if written == "in place":
            mixer.state_head_outputs[:, 1] = 0
        else:
            kept = mixer.state_head_outputs.clone()
            kept[:, 1] = 0
            mixer.state_head_outputs = kept
        added = mixer.attention_output.save()
    path = "model.language_model.layers.0.linear_attn"
    projection = qwen.raw.get_submodule(f"{path}.out_proj")
    handle = projection.register_forward_pre_hook(lambda _, args: (args[0] * (torch.arange(24) // 6 != 1),))
    truth = output_of(qwen.raw, qwen.inputs, path)
    handle.remove()
    assert torch.equal(added, truth)


def test_the_attention_of_text_positions_to_the_picture_and_to_the_text_sums_to_one(llava):
    with llava.model.trace(**llava.inputs):
        mask = llava.model.vision.image_token_mask.save()
        pattern = llava.model.layers[0].self_attn.attention_probabilities.save()
    last = pattern[0, :, -1]
    on_picture = last[:, mask[0]].reshape(4, 4, 4)
    torch.testing.assert_close(on_picture.sum((1, 2)) + last[:, ~mask[0]].sum(-1), torch.ones(4))
    native = f"{llava.row.blocks}.0.self_attn"
    truth = hooked(llava.eager, llava.inputs, native)[native][2][1]
    torch.testing.assert_close(on_picture, truth[0, :, -1][:, mask[0]].reshape(4, 4, 4), **CLOSE)
