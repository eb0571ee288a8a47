"""A value written back unchanged changes nothing, another changes what depends on it, and a write lands or raises."""

import pytest
import torch
from truth import first, hooked, input_of, logits_of, logits_with, logits_with_added
from walk import available, other, path

from belvedere import WriteError
from belvedere.testing import ROWS

COMPUTED = ("video_features", "image_features_per_image", "rotary", "segment_probabilities")


def writable(model, name):
    for host, found in available(model):
        if not found.read_only and found.name not in COMPUTED and found.name not in ("input_ids", "attention_mask"):
            yield host, found


def test_an_edit_in_place_of_a_shared_tensor_is_seen_by_its_other_reader(llava):
    stream = llava.model.vision.layers[2]
    with llava.model.trace(**llava.inputs):
        stream.layer_input = stream.layer_input * 0.5
        assigned = llava.model.logits.save()
    with llava.model.trace(**llava.inputs):
        stream.layer_input[:] = 0.5
        in_place = llava.model.logits.save()
    assert torch.equal(assigned, llava.logits)
    assert not torch.allclose(in_place, llava.logits)


def unread(checkpoint, where):
    return any(part in where for part in checkpoint.row.unread)


def test_a_value_written_back_unchanged_changes_nothing(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    for host, found in writable(model, checkpoint.name):
        with model.trace(**inputs):
            setattr(host, found.name, getattr(host, found.name).clone())
            logits = logits_of(model.output).save()
        assert torch.equal(logits, checkpoint.logits), path(host, found)


def test_another_value_changes_the_logits_the_same_way_in_place_and_assigned(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    tried = 0
    for host, found in writable(model, checkpoint.name):
        where = path(host, found)
        if where in checkpoint.row.shared:
            continue
        with model.trace(**inputs):
            held = getattr(host, found.name)
            setattr(host, found.name, other(held))
            assigned = logits_of(model.output).save()
        with model.trace(**inputs):
            held = getattr(host, found.name)
            held.copy_(other(held))
            in_place = logits_of(model.output).save()
        assert torch.equal(assigned, in_place), where
        assert torch.equal(assigned, checkpoint.logits) is unread(checkpoint, where), where
        tried += 1
    assert tried > 25


@pytest.mark.parametrize("name", list(ROWS))
def test_a_write_equals_the_same_edit_by_a_raw_hook(name, request):
    from conftest import _built

    checkpoint = _built[name, "sdpa"]
    model, inputs, native = checkpoint.model, checkpoint.inputs, checkpoint.row.blocks

    def change(held):
        return held.roll(1, dims=-1) * 0.7

    added = (checkpoint.row.added or ("", checkpoint.row.native("mlp")))[1]
    pairs = [
        (model.layers[1], "layer_output", f"{native}.1", ""),
        (model.layers[1].mlp, "mlp_output", f"{native}.1", added),
    ]
    tower = checkpoint.row.tower
    if checkpoint.row.blockless:
        pairs.append((model.vision, "tower_output", f"{tower}.{checkpoint.row.blockless}", ""))
    elif tower:
        pairs.append((model.vision.layers[0], "layer_output", f"{tower}.0", ""))
        pairs.append((model.vision.layers[1].mlp, "mlp_output", f"{tower}.1", checkpoint.row.parts[1]))
    for host, value, where, part in pairs:
        with model.trace(**inputs):
            setattr(host, value, change(getattr(host, value)))
            logits = model.logits.save()
        if part:
            expected = logits_with_added(checkpoint.raw, inputs, where, part, change)
        else:
            expected = logits_with(checkpoint.raw, inputs, where, change)
        assert torch.equal(logits, expected), (where, part)


def fed(model):
    """The text blocks after which image features are added once more."""
    return [block for block in model.layers if block.support()["deepstack_output"] is None]


def test_zeroing_the_image_tokens_from_a_block_on_blinds_the_model(scattering):
    model = scattering.model
    flipped = {**scattering.inputs, "pixel_values": scattering.inputs["pixel_values"].flip(-1)}
    seen, further = [], fed(model)
    for inputs in (scattering.inputs, flipped):
        with model.trace(**inputs):
            mask = model.vision.image_token_mask
            for number, block in enumerate(model.layers):
                if number == 0:
                    block.layer_input[mask] = 0
                for name in scattering.row.besides:
                    getattr(block, name)[mask] = 0
                if block in further:
                    block.deepstack_output[:] = 0
            logits = model.logits.save()
        seen.append(logits)
    assert torch.equal(*seen)
    assert not torch.allclose(seen[0], scattering.logits)


def test_written_image_features_stand_in_the_text_stream(scattering):
    model = scattering.model
    with model.trace(**scattering.inputs):
        mask = model.vision.image_token_mask.save()
        model.vision.image_features = torch.full_like(model.vision.image_features, 0.5)
        entering = model.layers[0].layer_input.save()
    assert (entering[mask] == 0.5).all()
    with model.trace(**scattering.inputs):
        model.vision.image_features_per_image[0][:] = -1.0
        entering = model.layers[0].layer_input.save()
    first = scattering.row.pictures[0]
    assert (entering[mask][:first] == -1.0).all()
    assert not (entering[mask][first:] == -1.0).any()


def test_zeroing_a_head_is_subtracting_its_own_contribution(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    number = next(one for one, block in enumerate(model.layers) if "self_attn" in vars(block))
    attention = model.layers[number].self_attn
    gated = attention.support()["attention_gate"] is None
    with model.trace(**inputs):
        outputs = attention.attention_head_outputs.save()
        gate = (attention.attention_gate if gated else torch.ones(1)).save()
        added = attention.output[0].save()
    with model.trace(**inputs):
        attention.attention_head_outputs[:, 2] = 0
        without = attention.output[0].save()
    projection = checkpoint.raw.get_submodule(f"{checkpoint.row.attention(number)}.{checkpoint.row.native('o_proj')}")
    alone = torch.zeros_like(outputs)
    alone[:, 2] = (outputs * gate)[:, 2]
    own = projection(alone.transpose(1, 2).flatten(2)) - projection(torch.zeros_like(alone).transpose(1, 2).flatten(2))
    torch.testing.assert_close(added - without, own, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("value", ["layer_output", "layer_input"])
def test_a_write_of_another_shape_says_what_is_there(llava, value):
    with (
        pytest.raises(
            WriteError, match=r"layers\[1\].layer_\w+ is Residual\[batch, seq, hidden\] = \(2, 24, 32\) here"
        ),
        llava.model.trace(**llava.inputs),
    ):
        setattr(llava.model.layers[1], value, torch.zeros(2, 24, 31))


def test_a_write_of_a_number_fills_the_value(llava):
    with llava.model.trace(**llava.inputs):
        entering = llava.model.layers[1].layer_input.save()
        attention = llava.model.layers[1].self_attn.attention_output.save()
        llava.model.layers[1].mlp.mlp_output = 0
        leaving = llava.model.layers[1].layer_output.save()
    torch.testing.assert_close(entering + attention, leaving)


def test_a_write_of_something_else_is_refused(llava):
    with pytest.raises(WriteError, match="takes a tensor or a number, not str"), llava.model.trace(**llava.inputs):
        llava.model.layers[1].layer_output = "zero"


@pytest.mark.parametrize(
    ("host", "value", "instead"),
    [
        ("vision", "image_token_mask", "write vision.image_features"),
        ("", "next_token_probs", "write logits"),
        ("", "input_size", "trace another one"),
    ],
)
def test_a_write_to_a_read_only_value_says_what_to_write(llava, host, value, instead):
    target = llava.model.get(host) if host else llava.model
    with pytest.raises(WriteError, match=instead), llava.model.trace(**llava.inputs):
        setattr(target, value, torch.zeros(1))


def test_written_token_ids_are_what_the_model_embeds(checkpoint):
    if checkpoint.row.tower:
        inputs = {key: checkpoint.inputs[key].clamp(min=8) for key in ("input_ids",)}
    else:
        inputs = {"input_ids": checkpoint.inputs["input_ids"]}
    other = inputs["input_ids"].flip(1)
    with checkpoint.model.trace(**inputs):
        checkpoint.model.input_ids = other
        logits = checkpoint.model.logits.save()
    assert torch.equal(logits, logits_of(checkpoint.raw(input_ids=other)))


def test_skip_layers_is_the_model_without_them(checkpoint):
    model, inputs = checkpoint.model, checkpoint.inputs
    number = checkpoint.row.skipped
    with model.trace(**inputs):
        model.skip_layers(number, number)
        entering = model.layers[number + 1].layer_input.save()
        logits = model.logits.save()
    native, before = f"{checkpoint.row.blocks}.{number}", f"{checkpoint.row.blocks}.{number - 1}"
    through = input_of(checkpoint.raw, inputs, native)
    assert torch.equal(logits, logits_with(checkpoint.raw, inputs, native, lambda _: through))
    if not fed(model):
        assert torch.equal(entering, first(hooked(checkpoint.raw, inputs, before)[before][2]))


def test_steer_adds_the_vector_where_it_is_told(llava):
    vector = torch.arange(32.0)
    with llava.model.trace(**llava.inputs):
        mask = llava.model.vision.image_token_mask.save()
        plain = llava.model.layers[1].layer_output.save()
    with llava.model.trace(**llava.inputs):
        llava.model.steer(1, vector, factor=2.0, positions=llava.model.vision.image_token_mask)
        steered = llava.model.layers[1].layer_output.save()
    expected = plain + 2 * vector * mask[..., None]
    torch.testing.assert_close(steered, expected)


def test_the_lens_at_the_last_block_is_the_models_own_answer(checkpoint):
    model = checkpoint.model
    with model.trace(**checkpoint.inputs):
        stream = model.layers[-1].layer_output
        lens = model.project_on_vocab(stream).save()
        logits = model.logits.save()
    torch.testing.assert_close(lens, logits)
