"""`belvedere verify`: what it prints, writes and exits with."""

import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from belvedere import shapes
from belvedere.cli import app
from belvedere.shapes import build
from belvedere.testing import ROWS

pytestmark = pytest.mark.trained


def run(*arguments):
    return CliRunner().invoke(app, ["verify", *(str(one) for one in arguments)], env={"COLUMNS": "200"})


def refused(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint folder as a user has one: weights, config and processor."""
    folder = tmp_path_factory.mktemp("untrained")
    torch.manual_seed(0)
    build.model("shapes-llava").save_pretrained(folder)
    build.processor("shapes-llava").save_pretrained(folder)
    return folder


def test_a_checkpoint_that_holds_to_the_contract_is_said_to_in_every_format(folder, tmp_path):
    done = run("shapes-llava")
    assert done.exit_code == 0, done.output
    assert "shapes-llava: 8 of 8 clauses hold" in done.stdout
    assert "input: a synthetic picture of" in done.stdout
    done = run(folder, "--format", "json")
    held = json.loads(done.stdout)
    assert held["passed"] is True
    assert [one["status"] for one in held["clauses"]] == ["pass"] * 8
    assert held["settings"]["number type"] == "float32"
    done = run(folder, "--format", "html", "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "report.html").read_text()
    assert text.count('<td class="yes">pass</td>') == 8
    assert "<script" not in text
    assert "http" not in text
    lines = run(folder, "--format", "markdown").stdout.splitlines()
    assert len({line.count(" | ") for line in lines if line.startswith("| ")}) == 1


def test_weights_that_break_a_clause_give_exit_status_1_and_name_the_block(folder, tmp_path, monkeypatch):
    from transformers.models.llama import modeling_llama

    own = modeling_llama.LlamaDecoderLayer.forward

    def leaking(self, hidden_states, *args, **kwargs):
        return own(self, hidden_states, *args, **kwargs) + 0.5 * hidden_states

    monkeypatch.setattr(modeling_llama.LlamaDecoderLayer, "forward", leaking)
    done = run(folder, "--format", "json")
    assert done.exit_code == 1
    held = json.loads(done.stdout)
    (failed,) = (one for one in held["clauses"] if one["status"] == "fail")
    assert failed["number"] == 2
    assert [one["where"] for one in failed["differences"]] == [f"layers[{number}]" for number in range(4)]
    assert all(one["by"] > one["tolerance"] > 0 for one in failed["differences"])
    done = run(folder)
    assert done.exit_code == 1
    assert "2 fails" in done.stdout
    done = run(folder, "--format", "html", "--out", tmp_path / "broken.html")
    assert (done.exit_code, "2 fails" in done.stdout) == (1, True)
    assert '<td class="fail">fail</td>' in (tmp_path / "broken.html").read_text()


def test_weights_that_are_no_numbers_are_refused(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith("layers.1.mlp.down_proj.weight"))
    weights[name][:] = torch.nan
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert "the logits of a plain forward are not all finite" in refused(tmp_path)


def test_a_picture_and_a_prompt_of_ones_own(tmp_path):
    scene = shapes.sample(0, checkpoint="shapes-llava")
    scene.image.save(tmp_path / "scene.png")
    done = run("shapes-llava", "--image", tmp_path / "scene.png", "--prompt", scene.prompt, "--dtype", "bfloat16")
    assert done.exit_code == 0, done.output
    assert "input: the input that was passed" in done.stdout
    assert "number type: bfloat16" in done.stdout


def test_arguments_that_cannot_work_are_refused(folder, tmp_path):
    Image.new("RGB", (32, 32)).save(tmp_path / "picture.png")
    assert "--image needs --prompt" in refused(folder, "--image", tmp_path / "picture.png")
    assert "there is no file '/nowhere.png'" in refused(folder, "--image", "/nowhere.png", "--prompt", "what ?")
    assert "there is no file or folder '/nowhere'" in refused("/nowhere")
    assert "is a config, and verifying needs weights" in refused(folder / "config.json")
    assert "1 picture(s) and no placeholder" in refused(
        folder, "--image", tmp_path / "picture.png", "--prompt", "what is this ?"
    )
    assert "cannot be loaded" in refused(folder, "--dtype", "float17")
    assert "cannot be written" in refused(folder, "--out", "/nowhere/report.html")


def test_a_folder_without_weights_is_refused(tmp_path):
    ROWS["llama"].config().save_pretrained(tmp_path)
    assert "cannot be loaded" in refused(tmp_path)
