"""`belvedere families` lists the shelves, and drafts an entry that the shelves then take."""

import types

import pytest
from typer.testing import CliRunner

from belvedere import StandardizedTransformer, families
from belvedere.cli import app
from belvedere.draft import draft
from belvedere.testing import ROWS


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_list_has_every_entry():
    result = run("families")
    assert result.exit_code == 0
    for shelf in families.PARTS:
        for name in families.known(shelf):
            assert name in result.output


def test_a_known_checkpoint_needs_no_draft(tmp_path):
    ROWS["llava"].config().save_pretrained(tmp_path)
    result = run("families", "draft", str(tmp_path))
    assert result.exit_code == 0
    assert result.output.count("known") == 3
    assert "---" not in result.output


def test_a_folder_without_a_config_is_said_so(tmp_path):
    result = run("families", "draft", str(tmp_path))
    assert result.exit_code == 2
    assert "no config at" in result.output


@pytest.fixture
def forgotten(monkeypatch):
    """The shelves without LLaVA's own entries."""
    files = families._files
    taken = {"towers": {"clip_vision_model"}, "wrappers": {"llava"}}
    monkeypatch.setattr(families, "_files", lambda shelf: files(shelf) - taken.get(shelf, set()))


def sections(text):
    """The body of each drafted file, by shelf."""
    parts = text.split("--- families/")[1:]
    return {part.partition("/")[0]: part.partition("\n")[2].partition("\n---")[0] for part in parts}


def test_a_drafted_entry_loads_and_names_the_parts(forgotten, monkeypatch):
    config = ROWS["llava"].config()
    text = draft(config)
    assert text.splitlines()[0].split() == ["text", "llama", "known"]
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["missing", "missing"]
    assert "# guess" in text
    assert "masked_scatter" in text
    assert 'tower="model.vision_tower.encoder.layers"' in text
    monkeypatch.setattr(families, "_registered", {shelf: {} for shelf in families.PARTS})
    for shelf, body in sections(text).items():
        entry = types.ModuleType(shelf)
        exec(body, vars(entry))
        families.register(shelf, {"towers": "clip_vision_model", "wrappers": "llava"}[shelf], entry)
    model = StandardizedTransformer.from_config(config)
    block = model.vision.layers[0]
    assert {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"} <= vars(block).keys()
    assert model.vision.patch_embed is model.model.vision_tower.embeddings.patch_embedding
    assert model.support()["vision.image_features"] is None


def test_a_text_model_is_drafted_alone():
    from transformers import BloomConfig

    text = draft(BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=64))
    assert text.splitlines()[0].split() == ["text", "bloom", "missing"]
    assert '"h": "layers",  # guess' in text
    assert 'auto="AutoModelForCausalLM"' in text


def test_a_stack_elsewhere_says_where_and_the_entry_loads(monkeypatch):
    from transformers import GPTJConfig

    config = GPTJConfig(n_embd=32, n_layer=2, n_head=4, vocab_size=64, rotary_dim=4)
    text = draft(config)
    assert 'STACK = "transformer"' in text
    monkeypatch.setattr(families, "_registered", {shelf: {} for shelf in families.PARTS})
    entry = types.ModuleType("gptj")
    exec(sections(text)["text"], vars(entry))
    families.register("text", "gptj", entry)
    assert StandardizedTransformer.from_config(config).support()["layers.layer_output"] is None


def test_a_declined_type_is_drafted_with_the_cause():
    from transformers import Blip2Config

    assert "declined: a Q-Former stands between" in draft(Blip2Config())


def test_a_config_that_builds_nothing_is_refused(tmp_path):
    from transformers import CLIPConfig

    CLIPConfig().save_pretrained(tmp_path)
    result = run("families", "draft", str(tmp_path))
    assert result.exit_code == 2
    assert "builds no model from a 'clip' config" in result.output
