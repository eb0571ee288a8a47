"""The shipped checkpoints, loaded as anyone would load them: small, true to their prompts, right, and local.

Figures over 1,000 held-out scenes a kind stand in each folder's `training.json`; these tests draw fewer.
"""

import json

import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from belvedere import shapes
from belvedere.shapes import build

pytestmark = pytest.mark.trained

SCENES = 64
PAIRS = 10


class Loaded:
    """A checkpoint with its processor."""

    def __init__(self, name):
        self.name = name
        self.folder = shapes.checkpoint(name)
        self.model = AutoModelForImageTextToText.from_pretrained(self.folder).eval()
        self.processor = AutoProcessor.from_pretrained(self.folder)
        inner = self.model.model
        self.projector = inner.multi_modal_projector if name == "shapes-llava" else inner.visual.merger

    def encode(self, scenes):
        return self.processor(
            text=[scene.prompt for scene in scenes],
            images=[scene.images for scene in scenes],
            padding=True,
            return_tensors="pt",
        )

    def token(self, answer):
        (token,) = self.processor.tokenizer(answer, add_special_tokens=False).input_ids
        return token

    @torch.no_grad()
    def logits(self, scenes):
        return self.model(**self.encode(scenes)).logits[:, -1]

    @torch.no_grad()
    def features(self, scene):
        """What a raw hook sees leaving the projector, flat."""
        seen = []
        handle = self.projector.register_forward_hook(lambda *call: seen.append(call[-1].flatten(0, -2)))
        self.model(**self.encode([scene]))
        handle.remove()
        return seen[0]

    @torch.no_grad()
    def patched(self, scene, features):
        """The answer's logits for each of several sets of features in place of the projector's own."""
        stacked = torch.stack(features)
        handle = self.projector.register_forward_hook(lambda *call: stacked.reshape(call[-1].shape))
        logits = self.logits([scene] * len(features))
        handle.remove()
        return logits


@pytest.fixture(scope="module", params=shapes.CHECKPOINTS)
def loaded(request):
    return Loaded(request.param)


def difference(loaded, logits, pair):
    clean, corrupt = (loaded.token(scene.answer) for scene in pair)
    return logits[:, clean] - logits[:, corrupt]


@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_a_folder_is_under_three_megabytes(name):
    assert sum(file.stat().st_size for file in shapes.checkpoint(name).rglob("*")) < 3_000_000


@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_a_folder_loads_without_a_missing_or_unexpected_weight(name):
    _, report = AutoModelForImageTextToText.from_pretrained(shapes.checkpoint(name), output_loading_info=True)
    assert not any(report.values()), report


def test_the_weights_are_float32(loaded):
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}


def test_what_is_unusual_about_the_large_models_is_kept():
    llava = AutoModelForImageTextToText.from_pretrained(shapes.checkpoint("shapes-llava")).config
    assert (llava.vision_feature_layer, llava.vision_feature_select_strategy) == (-2, "default")
    qwen = AutoModelForImageTextToText.from_pretrained(shapes.checkpoint("shapes-qwen3_5")).config
    assert set(qwen.text_config.layer_types) == {"linear_attention", "full_attention"}
    assert qwen.text_config.linear_num_value_heads > qwen.text_config.linear_num_key_heads
    for text in (llava.text_config, qwen.text_config):
        assert text.num_attention_heads > text.num_key_value_heads


def test_the_chat_template_and_the_prompt_give_the_same_inputs(loaded):
    for images in (1, 2):
        scene = shapes.sample(3, checkpoint=loaded.name, images=images)
        chat = loaded.processor.apply_chat_template(
            scene.messages(), add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        prompt = loaded.encode([scene])
        assert chat.keys() == prompt.keys()
        assert all(torch.equal(chat[key], prompt[key]) for key in chat)


def test_the_folder_s_tokenizer_is_the_one_that_code_builds(loaded):
    built = build.tokenizer(loaded.name)
    tokenizer = loaded.processor.tokenizer
    assert built.get_vocab() == tokenizer.get_vocab()
    prompt = shapes.sample(0, checkpoint=loaded.name).prompt
    assert built(prompt).input_ids == tokenizer(prompt).input_ids


def test_every_answer_is_one_token(loaded):
    tokenizer = loaded.processor.tokenizer
    answers = [*shapes.SHAPES, *shapes.COLORS, *shapes.SIZES]
    tokens = [loaded.token(answer) for answer in answers]
    assert len(set(tokens)) == len(answers)
    assert [tokenizer.decode([token]) for token in tokens] == answers
    assert len({tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}) == 3


def test_a_picture_has_one_token_per_square_of_its_style(loaded):
    side = shapes.STYLES[loaded.name].token_side
    for seed in range(5):
        scene = shapes.sample(seed, checkpoint=loaded.name)
        width, height = scene.image.size
        assert len(loaded.features(scene)) == (width // side) * (height // side)


def test_pictures_of_any_size_are_taken(loaded):
    image = Image.effect_noise((301, 173), 60).convert("RGB")
    scene = shapes.sample(0, checkpoint=loaded.name)
    inputs = loaded.processor(text=scene.prompt, images=[image], return_tensors="pt")
    with torch.no_grad():
        assert loaded.model(**inputs).logits.isfinite().all()


@pytest.mark.parametrize("kind", shapes.KINDS)
def test_held_out_questions_are_answered(loaded, kind):
    scenes = [shapes.sample(10_000 + seed, checkpoint=loaded.name, kind=kind) for seed in range(SCENES)]
    answers = loaded.logits(scenes).argmax(-1).tolist()
    right = [answer == loaded.token(scene.answer) for answer, scene in zip(answers, scenes, strict=True)]
    assert sum(right) >= SCENES - 3


def test_the_folder_states_what_it_reaches(loaded):
    figures = json.loads((loaded.folder / "training.json").read_text())
    assert figures["held_out_per_kind"] == 1000
    assert figures["accuracy"].keys() == set(shapes.KINDS)
    for kind, share in figures["accuracy"].items():
        assert share >= 0.99, kind
    assert figures["training_seconds"] < 45 * 60


def test_padding_and_neighbours_do_not_change_an_answer(loaded):
    scenes = [shapes.sample(seed, checkpoint=loaded.name, images=1 + seed % 2) for seed in range(6)]
    together = loaded.logits(scenes)
    for row, scene in zip(together, scenes, strict=True):
        torch.testing.assert_close(loaded.logits([scene])[0], row, atol=1e-3, rtol=1e-3)


def test_the_answer_is_followed_by_the_end(loaded):
    scenes = [shapes.sample(seed, checkpoint=loaded.name) for seed in range(8)]
    inputs = loaded.encode(scenes)
    generated = loaded.model.generate(**inputs, max_new_tokens=5, do_sample=False)[:, inputs.input_ids.shape[1] :]
    tokenizer = loaded.processor.tokenizer
    assert tokenizer.batch_decode(generated, skip_special_tokens=True) == [scene.answer for scene in scenes]
    assert (generated[:, 1] == tokenizer.eos_token_id).all()


def test_the_features_under_the_changed_object_carry_the_answer(loaded):
    inside, outside, ranking = [], [], []
    for seed in range(20_000, 20_000 + PAIRS):
        pair = shapes.pair(seed, checkpoint=loaded.name)
        ours, theirs = (loaded.features(scene) for scene in pair)
        under = torch.zeros(len(ours), dtype=torch.bool)
        under[pair[0].tokens_under(pair[0].changed)] = True
        singles = torch.eye(len(ours), dtype=torch.bool)
        masks = torch.cat(
            [torch.zeros_like(under)[None], torch.ones_like(under)[None], under[None], ~under[None], singles]
        )
        patches = [torch.where(mask[:, None], ours, theirs) for mask in masks]
        corrupt, clean, *rest = difference(loaded, loaded.patched(pair[1], patches), pair)
        restored = (torch.stack(rest) - corrupt) / (clean - corrupt)
        inside.append(restored[0])
        outside.append(restored[1])
        single = restored[2:]
        ranking.append((single[under][:, None] > single[~under]).float().mean())
    assert torch.stack(inside).mean() >= 0.9
    assert torch.stack(outside).mean() < 0.2
    assert torch.stack(ranking).mean() >= 0.95
