"""`belvedere demo`: the files that it writes, and what it says to arguments that cannot work."""

import re

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from belvedere import shapes
from belvedere.cli import app
from belvedere.experiments import PatchResult
from belvedere.pictures import open_picture
from belvedere.report.cases import difference, spellings
from belvedere.shapes import build

FILES = {"clean.png", "corrupt.png", "report.html", "text.png", "text.safetensors", "tower.png", "tower.safetensors"}


def run(*arguments):
    return CliRunner().invoke(app, ["demo", *(str(argument) for argument in arguments)], env={"COLUMNS": "200"})


def refused(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return done.stderr


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """A checkpoint folder as a user has one: weights, config and processor."""
    folder = tmp_path_factory.mktemp("untrained")
    torch.manual_seed(0)
    build.model("shapes-llava").save_pretrained(folder)
    build.processor("shapes-llava").save_pretrained(folder)
    return folder


@pytest.fixture
def pictures(tmp_path):
    """Three files: a clean picture, one that differs in a square, and one of another size."""
    clean = Image.new("RGB", (64, 64), (200, 30, 30))
    corrupt = clean.copy()
    corrupt.paste((20, 20, 220), (16, 24, 40, 48))
    for name, image in {"clean": clean, "corrupt": corrupt, "wide": Image.new("RGB", (96, 64))}.items():
        image.save(tmp_path / f"{name}.png")
    return tmp_path


def own(pictures, corrupt="corrupt"):
    return "--image", pictures / "clean.png", "--corrupt-image", pictures / f"{corrupt}.png"


def page_of(folder):
    """The report, which must show nothing from outside of itself."""
    text = (folder / "report.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"]{0,30})', text)
    assert all(source.startswith(("data:image/png;base64,", "#reason-")) for source in sources)
    assert "<script" not in text
    return text


@pytest.mark.slow
@pytest.mark.trained
@pytest.mark.parametrize("name", shapes.CHECKPOINTS)
def test_the_demo_writes_its_report_and_finds_the_object(name, tmp_path):
    done = run("--checkpoint", name, "--out", tmp_path / "out", "--seed", 3)
    assert done.exit_code == 0, done.output
    clean, corrupt = shapes.pair(3, checkpoint=name, images=1)
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    assert f"{clean.answer} (probability" in done.stdout
    assert f"{corrupt.answer} (probability" in done.stdout
    assert done.stdout.count("over the changed object") == 2
    assert done.stderr == ""
    page = page_of(tmp_path / "out")
    assert page.count("data:image/png;base64,") == 4
    assert clean.question in page
    text = PatchResult.load(tmp_path / "out" / "text.safetensors")
    assert text.effects.shape == (len(text.layers), len(text.positions))


@pytest.mark.slow
def test_a_checkpoint_and_pictures_of_ones_own(untrained, pictures, tmp_path):
    words = ("--prompt", "what color is the square?", "--target", "red", "--other", "blue")
    done = run("--checkpoint", untrained, *own(pictures), *words, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    assert "logit of &#39;red&#39; minus logit of &#39;blue&#39;" in page_of(tmp_path / "out")
    tower = PatchResult.load(tmp_path / "out" / "tower.safetensors")
    assert tower.effects.shape == (len(tower.layers), 64)
    # Untrained weights mix little: the patches outside of the square are the same in both pictures.
    square = [row * 8 + column for row in range(3, 6) for column in range(2, 5)]
    outside = [number for number in range(64) if number not in square]
    assert tower.effects[0, outside].abs().max() < tower.effects[0, square].abs().max()


@pytest.mark.slow
def test_a_target_of_several_tokens_is_measured_by_its_first_and_says_so(untrained, pictures, tmp_path):
    words = ("--prompt", "<image> what color?", "--target", "red square")
    done = run("--checkpoint", untrained, *own(pictures), *words, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "'red square' is 2 tokens; measured by its first one, 'red'" in done.stdout
    assert "probability of &#39;red&#39;" in page_of(tmp_path / "out")


@pytest.mark.slow
def test_what_a_checkpoint_cannot_do_is_said(untrained, pictures, tmp_path):
    given = ("--checkpoint", untrained, "--prompt", "what color?", "--out", tmp_path / "out")
    assert "'zeppelin' is not in this checkpoint's vocabulary" in refused(
        *given, *own(pictures), "--target", "zeppelin"
    )
    same = own(pictures, corrupt="clean")
    assert "there is nothing to restore" in refused(*given, *same, "--target", "red")
    (tmp_path / "broken.png").write_bytes((pictures / "clean.png").read_bytes()[:40])
    broken = ("--image", tmp_path / "broken.png", "--corrupt-image", pictures / "clean.png")
    assert "cannot be read" in refused(*given, *broken, "--target", "red")


@pytest.mark.slow
def test_pictures_of_unequal_size_are_refused_where_their_patches_differ(pictures, tmp_path):
    torch.manual_seed(0)
    build.model("shapes-qwen3_5").save_pretrained(tmp_path / "qwen")
    build.processor("shapes-qwen3_5").save_pretrained(tmp_path / "qwen")
    given = ("--checkpoint", tmp_path / "qwen", *own(pictures, corrupt="wide"), "--prompt", "what?", "--target", "red")
    assert "resize" in refused(*given)


def test_half_a_case_is_refused(pictures):
    said = refused("--image", pictures / "clean.png", "--target", "red")
    assert "missing: --corrupt-image, --prompt" in said
    assert "missing: --image" in refused("--other", "blue")


def test_a_checkpoint_without_scenes_needs_pictures(tmp_path):
    assert "there are no scenes for it" in refused("--checkpoint", tmp_path)


def test_a_picture_that_is_not_there_is_refused(pictures):
    words = ("--prompt", "what?", "--target", "red")
    given = ("--image", "nowhere.png", "--corrupt-image", pictures / "clean.png", *words)
    assert "--image: there is no file 'nowhere.png'" in refused(*given)


def test_a_checkpoint_that_is_not_there_is_refused(pictures):
    words = ("--prompt", "what?", "--target", "red")
    assert "there is no file or folder '/nowhere'" in refused("--checkpoint", "/nowhere", *own(pictures), *words)


def test_the_changed_box_is_where_the_pixels_differ(pictures):
    clean, corrupt, wide = (open_picture(pictures / f"{name}.png") for name in ("clean", "corrupt", "wide"))
    assert difference(clean, corrupt) == (16, 24, 40, 48)
    assert difference(clean, clean) is None
    assert difference(clean, wide) is None


def test_a_word_is_spelled_as_the_tokenizer_writes_it():
    bare, spaced = spellings(build.tokenizer("shapes-qwen3_5"), "red")
    assert (bare.text, spaced.text) == ("red", " red")
    assert bare.note == ""
    (only,) = spellings(build.tokenizer("shapes-llava"), "red")
    assert only.text == "red"
