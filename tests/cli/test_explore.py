"""`belvedere explore`: the numbers in its page are the model's own, and the page works in a browser."""

import json
import re
from base64 import b64decode
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import CHROMIUM, Browser
from PIL import Image
from truth import hooked
from typer.testing import CliRunner

from belvedere import InputError, StandardizedTransformer, Unavailable, shapes
from belvedere.cli import app
from belvedere.experiments import LensResult, PatchResult
from belvedere.report import Candidate, Exploration, Looks, Sheet, Word, explore, explorer
from belvedere.report.exploration import CELLS, _spaced
from belvedere.report.explored import LIMIT
from belvedere.report.sheets import sheets_of
from belvedere.shapes import build
from belvedere.testing import ROWS, tiny
from belvedere.testing import build as build_zoo

FIVE_MB = 5_000_000
STACK = "model.language_model.layers"


def run(*arguments):
    return CliRunner().invoke(app, ["explore", *(str(argument) for argument in arguments)], env={"COLUMNS": "200"})


def refused(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return done.stderr


# What a page says, decoded.


@dataclass
class Page:
    """A page's data, with its bytes as numbers."""

    data: dict[str, Any]

    @classmethod
    def of(cls, text):
        (held,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
        return cls(json.loads(held))

    def numbers(self, text, kind):
        return np.frombuffer(b64decode(text), dtype=kind)

    def rows(self, held):
        steps = self.numbers(held["steps"], "u1").reshape(-1, self.data["cells"])
        return steps / 255 * self.numbers(held["most"], "<f4")[:, None]

    def answer(self, block):
        """``[heads, cells]``."""
        before = 0
        for number, heads, _ in self.data["looks"]["blocks"]:
            if number == block:
                return self.rows(self.data["looks"]["answer"])[before : before + heads]
            before += heads
        return None

    def token(self, block, position):
        before, queries = 0, self.data["looks"]["queries"]
        for number, _, heads in self.data["looks"]["blocks"]:
            if number == block:
                first = before + queries.index(position) * heads
                return self.rows(self.data["looks"]["tokens"])[first : first + heads]
            before += heads * len(queries)
        return None

    def lens(self, name, kind):
        held = self.numbers(self.data["lens"][name], kind)
        return held.reshape(len(self.data["lens"]["layers"]), self.data["cells"], -1)

    @property
    def effects(self):
        return self.numbers(self.data["effects"]["values"], "<f4").reshape(-1, self.data["cells"])


# The truth: a plain transformers module with eager attention, and PyTorch hooks.


@dataclass
class Case:
    """A scene, the page that is made of it, and the same checkpoint as transformers loads it."""

    name: str
    scene: Any
    module: torch.nn.Module
    processor: Any
    found: Exploration
    page: Page
    text: str
    file: Path

    def encoded(self, picture):
        return dict(self.processor(text=[self.scene.prompt], images=[picture], return_tensors="pt"))

    @property
    def inputs(self):
        return self.encoded(self.scene.image)

    @property
    def places(self):
        """The positions of the image tokens."""
        token = self.module.config.image_token_id
        return (self.inputs["input_ids"][0] == token).nonzero().flatten().tolist()


_cases: dict[str, Case] = {}


def case_of(name, tmp_path_factory):
    if name not in _cases:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        folder = shapes.checkpoint(name)
        scene = shapes.sample(0, checkpoint=name)
        found = explore(StandardizedTransformer(folder, dispatch=True), scene.prompt, scene.images)
        text = explorer(found)
        file = tmp_path_factory.mktemp(name) / "page.html"
        file.write_text(text)
        _cases[name] = Case(
            name=name,
            scene=scene,
            module=AutoModelForImageTextToText.from_pretrained(folder, attn_implementation="eager").eval(),
            processor=AutoProcessor.from_pretrained(folder),
            found=found,
            page=Page.of(text),
            text=text,
            file=file,
        )
    return _cases[name]


@pytest.fixture(params=shapes.CHECKPOINTS)
def case(request, tmp_path_factory):
    return case_of(request.param, tmp_path_factory)


@pytest.fixture
def llava(tmp_path_factory):
    return case_of("shapes-llava", tmp_path_factory)


def patterns(case):
    """``{block: [heads, query, key]}`` of every attention that returns one."""
    blocks = range(len(case.module.get_submodule(STACK)))
    having = [block for block in blocks if hasattr(case.module.get_submodule(f"{STACK}.{block}"), "self_attn")]
    seen = hooked(case.module, case.inputs, *(f"{STACK}.{block}.self_attn" for block in having))
    return {block: seen[f"{STACK}.{block}.self_attn"][2][1][0] for block in having}


def streams(case, inputs):
    """What enters each block: ``[position, hidden]``."""
    paths = [f"{STACK}.{block}" for block in range(len(case.module.get_submodule(STACK)))]
    seen = hooked(case.module, inputs, *paths)
    return [(seen[path][0] or [seen[path][1]["hidden_states"]])[0][0] for path in paths]


def close(held, truth):
    """A row of bytes is off by at most half a step of its own largest value."""
    step = truth.max(-1, keepdims=True) / 255
    return (np.abs(held - truth) <= step / 2 + 1e-6).all()


@pytest.mark.trained
def test_attention_in_the_page_is_what_eager_transformers_attends(case):
    truth = patterns(case)
    looks = case.page.data["looks"]
    assert [block for block, _, _ in looks["blocks"]] == list(truth)
    for block, pattern in truth.items():
        toward = pattern[:, :, case.places].numpy()
        assert close(case.page.answer(block), toward[:, -1])
        for position in looks["queries"]:
            assert close(case.page.token(block, position), toward[:, position])
    # A token that the page cannot be asked about attends to no picture at all.
    texts = [position for position, _, image in case.page.data["words"] if image < 0]
    silent = sorted(set(texts) - set(looks["queries"]))
    assert silent
    assert max(pattern[:, silent][:, :, case.places].abs().max() for pattern in truth.values()) == 0
    every = set(range(len(case.module.get_submodule(STACK))))
    assert {int(block) for block in looks["reasons"]} == every - truth.keys()


@pytest.mark.trained
def test_words_in_the_page_are_the_final_norm_and_head_of_each_block(case):
    blocks = range(len(case.module.get_submodule(STACK)))
    seen = hooked(case.module, case.inputs, *(f"{STACK}.{block}" for block in blocks))
    norm, head = case.module.get_submodule("model.language_model.norm"), case.module.get_submodule("lm_head")
    lens = case.page.data["lens"]
    words, shares = case.page.lens("tokens", "<u2"), case.page.lens("probabilities", "<u2") / 65535
    watched = case.page.lens("watched", "<u2")[..., 0] / 65535
    answer = case.found.answer.token
    for block in blocks:
        held = seen[f"{STACK}.{block}"][2]
        stream = (held[0] if isinstance(held, tuple) else held)[0, case.places]
        with torch.no_grad():
            chances = head(norm(stream)).softmax(-1)
        best = chances.topk(lens["top"])
        assert np.abs(shares[block] - best.values.numpy()).max() < 2e-5
        assert np.abs(watched[block] - chances[:, answer].numpy()).max() < 2e-5
        spelled = [[case.processor.tokenizer.decode([token]) for token in row] for row in best.indices.tolist()]
        told = [[lens["words"][number] for number in row] for row in words[block].tolist()]
        # Words whose chances are the same to six digits may change places.
        apart = best.values[:, :-1] - best.values[:, 1:] > 1e-6
        sure = apart.all(-1).tolist()
        assert [row for row, fine in zip(told, sure, strict=True) if fine] == [
            row for row, fine in zip(spelled, sure, strict=True) if fine
        ]
        assert sum(sure) > len(sure) / 2


@pytest.mark.trained
def test_the_answer_in_the_page_is_the_model_s_next_token(case):
    with torch.no_grad():
        chances = case.module(**case.inputs).logits[0, -1].softmax(-1)
    answer = case.page.data["answer"]
    assert answer["text"] == case.processor.tokenizer.decode([int(chances.argmax())])
    assert answer["probability"] == pytest.approx(float(chances.max()), abs=1e-5)
    assert [one.token for one in case.found.candidates] == chances.topk(5).indices.tolist()


def patched(case, inputs, block, position, vector):
    """The next token's logits with one position of a block's input replaced."""

    def write(module, args, kwargs):
        held = (args[0] if args else kwargs["hidden_states"]).clone()
        held[0, position] = vector
        return ((held, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": held})

    handle = case.module.get_submodule(f"{STACK}.{block}").register_forward_pre_hook(write, with_kwargs=True)
    try:
        with torch.no_grad():
            return case.module(**inputs).logits[0, -1]
    finally:
        handle.remove()


@pytest.mark.trained
def test_effects_in_the_page_are_patches_by_hand_against_the_mean_colour(case):
    picture = case.scene.image.convert("RGB")
    colour = tuple(round(level) for level in np.asarray(picture).reshape(-1, 3).mean(0).tolist())
    blank = case.encoded(Image.new("RGB", picture.size, colour))
    with torch.no_grad():
        clean, corrupt = (case.module(**one).logits[0, -1] for one in (case.inputs, blank))
    answer, rival = int(clean.argmax()), int(corrupt.argmax())

    def metric(logits):
        return float(logits[answer] - (0 if rival == answer else logits[rival]))

    held = case.page.data["effects"]
    assert held["clean"] == pytest.approx(metric(clean), abs=1e-3)
    assert held["corrupt"] == pytest.approx(metric(corrupt), abs=1e-3)
    sources = streams(case, case.inputs)
    flat = np.abs(case.page.effects).argsort(axis=None)
    # The strongest cells, and some of the rest.
    for number in [*flat[-4:].tolist(), *flat[::41].tolist()]:
        row, cell = divmod(number, case.page.data["cells"])
        block, position = held["layers"][row], case.places[cell]
        done = metric(patched(case, blank, block, position, sources[block][position]))
        effect = (done - metric(corrupt)) / (metric(clean) - metric(corrupt))
        assert case.page.effects[row, cell] == pytest.approx(effect, abs=2e-3)


@pytest.mark.trained
def test_each_place_is_the_square_that_its_token_shows(case):
    side = {"shapes-llava": 8, "shapes-qwen3_5": 16}[case.name]
    (sheet,) = case.page.data["sheets"]
    wide = case.scene.image.width // side
    for cell, box in zip(sheet["cells"], sheet["boxes"], strict=True):
        row, column = divmod(cell, wide)
        assert box == [column * side, row * side, (column + 1) * side, (row + 1) * side]


@pytest.mark.trained
def test_an_answer_of_ones_own_and_a_pair_of_ones_own(llava):
    clean, corrupt = shapes.pair(3, checkpoint="shapes-llava", images=1)
    model = StandardizedTransformer(shapes.checkpoint("shapes-llava"), dispatch=True)
    found = explore(model, clean.question, clean.images, answer=corrupt.answer, corrupt=corrupt.images, effect_layers=0)
    assert (found.chosen, found.answer.text) == (True, corrupt.answer)
    assert f"the model's own next token is {found.candidates[0].text!r}" in found.notes[0]
    assert found.effects.layers == (0,)
    assert found.corrupt == "the pictures that were passed as corrupt"
    page = explorer(found)
    assert "Patched was block 0; the others were left out" in page
    none = explore(model, clean.question, clean.images, effect_layers=())
    assert none.effects == "no blocks were asked for"
    assert "was not measured here: no blocks were asked for" in explorer(none)
    other = explore(model, clean.question, clean.images, corrupt_prompt="what color is in the west?", effect_layers=1)
    assert other.corrupt == "the same pictures, and is asked: what color is in the west?"


def test_what_cannot_be_explored_says_why(llava):
    model = StandardizedTransformer(shapes.checkpoint("shapes-llava"), dispatch=True)
    scene = llava.scene
    with pytest.raises(InputError, match="at least one"):
        explore(model, scene.question, [])
    with pytest.raises(InputError, match="not in this checkpoint's vocabulary"):
        explore(model, scene.question, scene.images, answer="zeppelin")
    with pytest.raises(InputError, match="1 placeholder"):
        explore(model, scene.prompt, [scene.image, scene.image])
    with pytest.raises(InputError, match="word them so that they have as many"):
        explore(model, scene.question, scene.images, corrupt_prompt="what is the color of the one in the west?")
    alone = StandardizedTransformer(build_text())
    with pytest.raises(Unavailable, match="is a text model and has no tower"):
        explore(alone, "hello", scene.images)


def build_text():
    return build_zoo("llama")


# Every architecture has a page.


#: Thumbnails and tiles, newlines, latents, a text that attends beside the prompt, a mixed text, and other ways in.
SHOWN = ("llava_next", "idefics3", "idefics2", "mllama", "qwen3_5", "qwen2_5_vl", "gemma4", "paligemma", "llama4")


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_of_every_kind_of_tower_shows_each_cell_once(name):
    small = tiny(name)
    found = explore(small.model, small.prompt, small.images, effect_layers=0)
    cells = sorted(cell for sheet in found.sheets for cell in sheet.cells.tolist())
    assert cells == list(range(found.cells))
    page = explorer(found)
    data = Page.of(page).data
    for sheet in data["sheets"]:
        # Some boxes reach into what a processor pads the picture with: the view holds them, and the picture.
        left, top, right, bottom = sheet["view"]
        for box in sheet["boxes"]:
            assert left - 0.6 <= box[0] < box[2] <= right + 0.6
            assert top - 0.6 <= box[1] < box[3] <= bottom + 0.6
        if sheet["over"]:
            width, height = small.images[sheet["image"]].size
            assert left <= 0 < width <= right
            assert top <= 0 < height <= bottom
    assert len(data["pictures"]) == len(small.images)
    assert {held.shape[-1] for held in found.looks.answer.values()} == {found.cells}
    for sheet in found.sheets:
        assert not sheet.boxes.isnan().any()
        assert sheet.over or sheet.note in page
    for reason in found.looks.reasons.values():
        assert reason in page.replace("&#39;", "'")


def test_a_cross_attending_text_is_shown_by_its_own_pattern():
    small = tiny("mllama")
    found = explore(small.model, small.prompt, small.images)
    crossing = [number for number, block in enumerate(small.model.layers) if "cross_attn" in vars(block)]
    assert list(found.looks.answer) == crossing
    module = build_zoo("mllama", "eager").eval()
    inputs = dict(small.model.processor(text=[small.prompt], images=[small.images], return_tensors="pt"))
    for block in crossing:
        path = f"model.language_model.layers.{block}.cross_attn"
        pattern = hooked(module, inputs, path)[path][2][1][0]
        torch.testing.assert_close(found.looks.answer[block], pattern[:, -1].float(), atol=1e-5, rtol=1e-4)
    assert "beside the prompt" in found.lens
    assert "beside the prompt" in found.effects


def test_a_layout_without_boxes_is_shown_beside_the_picture_and_says_why():
    row = ROWS["qwen3_5"]
    small = tiny("qwen3_5")
    layout = small.model.layout(**row.inputs())
    sheets = sheets_of(layout)
    assert not any(sheet.over for sheet in sheets)
    assert all("an encoding does not say how large its pictures were" in sheet.note for sheet in sheets)
    sheet = sheets[0]
    # In columns and rows, line by line.
    right, bottom = sheet.boxes[:, 2:].amax(0).tolist()
    assert right * bottom == len(sheet.cells)
    assert sheet.boxes[0].tolist() == [0, 0, 1, 1]


# The page stays small.


def synthetic(*, text, cells, blocks=32, heads=32):
    """An exploration of random numbers, which no encoding makes smaller, over a picture that none makes smaller."""
    random = np.random.default_rng(0)
    rows = int(cells**0.5)
    columns = -(-cells // rows)
    number = torch.arange(cells)
    side = torch.tensor([1600 / columns, 1200 / rows]).double()
    corner = torch.stack([number % columns, number // columns], -1).double() * side
    noise = Image.fromarray(random.integers(0, 256, (1200, 1600, 3), dtype=np.uint8))
    by_head = text * cells * blocks * heads <= 4_000_000
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 150_000, (blocks, cells, 3), generator=generator)
    answer = Candidate(token=0, text="red", probability=0.5)
    shares = torch.rand(blocks, cells, 3, generator=generator)
    positions = tuple(range(5, 5 + cells))
    boxes, images = torch.cat([corner, corner + side], -1), torch.zeros(cells, dtype=torch.long)
    return Exploration(
        model="synthetic",
        question="what?",
        pictures=(noise,),
        words=tuple(
            Word(position=place, text="word" if place not in positions else "", image=0 if place in positions else -1)
            for place in range(text + cells)
        ),
        candidates=(answer,),
        answer=answer,
        chosen=False,
        blocks=blocks,
        cells=cells,
        sheets=(Sheet(title="picture 1", image=0, cells=number, boxes=boxes),),
        looks=Looks(
            answer={block: torch.rand(heads, cells, generator=generator) for block in range(blocks)},
            tokens={
                block: torch.rand(text, heads if by_head else 1, cells, generator=generator) for block in range(blocks)
            },
            queries=tuple(place for place in range(text + cells) if place not in positions),
            by_head=by_head,
            lacking={},
        ),
        lens=LensResult(
            tokens=tokens,
            probabilities=shares,
            watched=shares[..., :1],
            boxes=boxes,
            images=images,
            watch=(0,),
            words={str(token): f" wörd{token}" for token in {0, *tokens.flatten().tolist()}},
            layers=tuple(range(blocks)),
            positions=positions,
            value="layers.layer_output",
        ),
        effects=PatchResult(
            effects=torch.randn(blocks, cells, generator=generator),
            raw=torch.randn(blocks, cells, generator=generator),
            layers=tuple(range(blocks)),
            positions=tuple((place,) for place in positions),
            clean=1.0,
            corrupt=0.0,
            value="layers.layer_input",
            settings={"metric": "logit of red"},
        ),
    )


@pytest.mark.parametrize(("text", "cells"), [(24, 576), (100, 500), (200, 400), (300, 300), (500, 100)])
def test_a_prompt_of_600_tokens_under_32_blocks_of_32_heads_fits_in_5_mb(text, cells):
    found = synthetic(text=text, cells=cells)
    page = explorer(found)
    assert len(page.encode()) < FIVE_MB
    data = Page.of(page)
    # The answer keeps every head, and most tokens are there, though no number here repeats another.
    assert [heads for _, heads, _ in data.data["looks"]["blocks"]] == [32] * 32
    queries = data.data["looks"]["queries"]
    assert len(queries) >= 0.8 * text
    assert queries == list(found.looks.queries[-len(queries) :])
    assert (len(queries) < text) == (f"the last {len(queries)} of the {text} tokens" in page)
    assert close(data.answer(31), found.looks.answer[31].numpy())
    for number in (-len(queries), -1):
        mean = found.looks.tokens[31][number].mean(0, keepdim=True).numpy()
        assert close(data.token(31, found.looks.queries[number]), mean)
    assert "of the prompt&#39;s tokens the mean over heads, of the answer every head" in page


def test_what_no_page_can_hold_is_left_out_and_said():
    page = explorer(synthetic(text=100, cells=900, blocks=48, heads=32))
    assert len(page.encode()) < FIVE_MB
    (count,) = re.findall(r"the last (\d+) of the 100 tokens that attend to a picture", page)
    queries = Page.of(page).data["looks"]["queries"]
    assert len(queries) == int(count) > 0
    assert queries[-1] == 999
    huge = explorer(synthetic(text=20, cells=2500, blocks=64, heads=64))
    assert len(huge.encode()) < FIVE_MB
    assert "the mean over heads, of the answer too" in huge
    assert FIVE_MB > LIMIT


def test_what_a_token_spells_is_text_and_nothing_else(browser, tmp_path):
    found = synthetic(text=4, cells=9, blocks=2, heads=2)
    wicked = "</script><img src=x onerror=document.title='taken'>"
    answer = Candidate(token=0, text="\n", probability=0.5)
    words = tuple(replace(word, text=wicked) if word.image < 0 else word for word in found.words)
    page = explorer(replace(found, words=words, answer=answer, candidates=(answer,), model=wicked, question=wicked))
    assert wicked not in page
    file = tmp_path / "page.html"
    file.write_text(page)
    browser.size(1100, 900)
    browser.look()
    browser.open(file)
    assert browser.run("document.querySelectorAll('#tokens button')[1].textContent") == wicked
    assert browser.run("document.title") != "taken"
    assert browser.run("document.querySelectorAll('img').length") == 1
    assert browser.run("document.querySelector('[data-position=answer]').textContent") == "answer: \u21b5"
    assert browser.run("document.querySelector('b.word').textContent") == '"\\n"'
    quiet(browser)


def test_a_sweep_takes_as_many_blocks_as_it_has_room_for():
    assert _spaced(4, 49) == [0, 1, 2, 3]
    assert _spaced(32, 576) == [0, 5, 10, 16, 21, 26, 31]
    assert len(_spaced(32, 576)) * 576 <= CELLS
    assert _spaced(32, 5000) == [0]


# The page in a browser.


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine to open the page in")
    held = Browser(tmp_path_factory.mktemp("profile"))
    yield held
    held.close()


@pytest.fixture
def opened(browser, llava):
    """The page of LLaVA's scene, in a window of a desk."""
    browser.size(1100, 900)
    browser.look()
    browser.open(llava.file)
    return browser


def changed(before, after):
    """The share of pixels that differ."""
    assert before.size == after.size
    return float((np.asarray(before) != np.asarray(after)).any(-1).mean())


def filled(picture):
    """That a picture is no empty ground: it has many colours, and they spread."""
    pixels = np.asarray(picture)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50
    assert pixels.std() > 10


def quiet(browser):
    """That nothing went wrong and nothing was asked for beside the page itself and what it carries."""
    assert browser.errors == []
    assert all(address.startswith(("file://", "data:")) for address in browser.requests)
    assert sum(address.startswith("file://") for address in browser.requests) == 1


def top(browser):
    """The table of the strongest places: ``[(place, value)]``."""
    rows = browser.run("[...document.querySelectorAll('#top tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    return [(int(re.search(r"\d+", row[1])[0]) - 1, float(row[3])) for row in rows]


@pytest.mark.trained
def test_a_click_on_a_token_paints_what_it_attends_to(opened, llava):
    first = opened.picture(".stage")
    filled(first)
    position = llava.page.data["looks"]["queries"][2]
    opened.click(f'#tokens button[data-position="{position}"]')
    after = opened.picture(".stage")
    filled(after)
    assert changed(first, after) > 0.1
    pressed = f'document.querySelector(`[data-position="{position}"]`).ariaPressed'
    assert opened.run(pressed) == "true"
    block = int(opened.run("document.getElementById('block').value"))
    mean = patterns(llava)[block][:, position][:, llava.places].mean(0)
    assert all(value == pytest.approx(float(mean[cell]), abs=2e-3) for cell, value in top(opened))
    assert [value for _, value in top(opened)] == pytest.approx(mean.topk(8).values.tolist(), abs=2e-3)
    share = f"{100 * float(mean.sum()):.0f}"
    assert re.search(rf"{share[:-1]}\d?(\.\d)? % of it goes to the picture", opened.run("says.textContent"))
    # A token in front of the picture attends to none of it, and changes nothing.
    opened.click('#tokens button[aria-disabled="true"]')
    assert changed(after, opened.picture(".stage")) == 0
    quiet(opened)


@pytest.mark.trained
def test_the_darkest_pixels_are_where_the_most_attention_goes(opened, llava):
    cell, _ = top(opened)[0]
    weakest = int(llava.page.answer(int(opened.run("block.value"))).mean(0).argmin())
    shot = np.asarray(opened.picture(".stage canvas")).astype(float)
    side = shot.shape[0] // 8

    def blue(one):
        row, column = divmod(one, 8)
        return shot[row * side + 8 : (row + 1) * side - 8, column * side + 8 : (column + 1) * side - 8, 2].mean()

    assert blue(cell) < blue(weakest) - 40


@pytest.mark.trained
def test_pointing_at_a_patch_shows_its_numbers(opened, llava):
    assert opened.run("details.hidden") is True
    # The ninth place in a grid of eight by eight: the second line's first.
    opened.move(".stage", 0.5 / 8, 1.5 / 8)
    assert opened.run("details.hidden") is False
    assert opened.run("place.textContent") == "Place 9"
    rows = opened.run(
        "[...document.querySelectorAll('#by-block tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    words, effects = llava.page.lens("tokens", "<u2"), llava.page.effects
    for block, row in enumerate(rows):
        assert row[0] == str(block)
        assert float(row[1]) == pytest.approx(float(patterns(llava)[block][:, -1, llava.places[8]].mean()), abs=2e-3)
        assert row[2].startswith(llava.page.data["lens"]["words"][words[block, 8, 0]].strip())
        assert float(row[4]) == pytest.approx(float(effects[block, 8]), abs=1e-3)
    filled(opened.picture("#details"))
    assert "by block (down) and head (across), of the answer" in opened.run("document.getElementById('grid').ariaLabel")
    # It follows the mouse until a click holds it; Escape lets go.
    opened.click(".stage", 0.5 / 8, 2.5 / 8)
    opened.move(".stage", 7.5 / 8, 7.5 / 8)
    assert opened.run("place.textContent") == "Place 17 (held)"
    opened.press("Escape")
    assert opened.run("details.hidden") is True
    quiet(opened)


@pytest.mark.trained
def test_a_click_on_the_small_map_chooses_block_and_head(opened):
    opened.click(".stage", 0.5, 0.5)
    before = opened.picture(".stage")
    size = opened.run("[grid.width, grid.height]")
    # The first block's second head, past the labels.
    step = opened.run("(document.getElementById('grid').width - 38) / 4")
    tall = (size[1] - 22) / 4
    opened.click("#grid", (34 + 1.5 * step) / size[0], (18 + 0.5 * tall) / size[1])
    assert opened.run("[block.value, head.value]") == ["0", "1"]
    assert changed(before, opened.picture(".stage")) > 0.05


@pytest.mark.trained
def test_everything_can_be_done_by_keyboard(opened, llava):
    opened.press("Tab")
    assert opened.run("document.activeElement.dataset.position") == "answer"
    ring = opened.run("['outlineStyle', 'outlineWidth'].map(e => getComputedStyle(document.activeElement)[e])")
    assert ring == ["solid", "3px"]
    before = opened.picture(".stage")
    opened.press("End")
    for _ in range(2):
        opened.press("ArrowLeft")
    wanted = llava.page.data["looks"]["queries"][-3]
    assert opened.run("document.activeElement.dataset.position") == str(wanted)
    opened.press("Enter")
    assert changed(before, opened.picture(".stage")) > 0.05
    seen = []
    for _ in range(12):
        opened.press("Tab")
        seen.append(opened.run("(e => e.id || e.name || e.className)(document.activeElement)"))
        if seen[-1] in ("block", "head"):
            value, shot = opened.run("document.activeElement.value"), opened.picture(".stage")
            opened.press("ArrowLeft" if seen[-1] == "block" else "ArrowRight")
            assert opened.run("document.activeElement.value") != value
            assert changed(shot, opened.picture(".stage")) > 0.02
        if seen[-1] == "stage":
            break
    assert seen == ["map", "scale", "own", "block", "head", "stage"]
    # The strongest place is chosen where the picture gets the focus.
    (cell, _), *_ = top(opened)
    assert opened.run("place.textContent") == f"Place {cell + 1}"
    row, column = divmod(cell, 8)
    key, step = ("ArrowRight", 1) if column < 7 else ("ArrowLeft", -1)
    opened.press(key)
    assert opened.run("place.textContent") == f"Place {cell + step + 1}"
    key, step = ("ArrowDown", step + 8) if row < 7 else ("ArrowUp", step - 8)
    opened.press(key)
    opened.press("Enter")
    assert opened.run("place.textContent") == f"Place {cell + step + 1} (held)"
    assert "share of its attention, held" in opened.run("live.textContent")
    quiet(opened)


@pytest.mark.trained
def test_colours_may_be_of_words_and_of_effects_too(opened, llava):
    shots = {}
    for name in ("attention", "lens", "effect"):
        opened.click(f"input[value={name}]")
        shots[name] = opened.picture(".stage")
    assert changed(shots["attention"], shots["lens"]) > 0.1
    assert changed(shots["lens"], shots["effect"]) > 0.1
    row = llava.page.data["effects"]["layers"].index(int(opened.run("block.value")))
    best = np.abs(llava.page.effects[row]).argmax()
    assert top(opened)[0][0] == best
    most = float(np.abs(llava.page.effects[row]).max())
    ends = opened.run("[low.textContent, high.textContent, unit.textContent]")
    assert [float(end) for end in ends[:2]] == pytest.approx([-most, most], abs=1e-3)
    assert ends[2] == "share of the clean answer restored"
    opened.click("input[value=all]")
    whole = float(np.abs(llava.page.effects).max())
    assert float(opened.run("high.textContent")) == pytest.approx(whole, abs=1e-3)


@pytest.mark.trained
def test_a_block_without_a_pattern_says_so(browser, tmp_path_factory):
    case = case_of("shapes-qwen3_5", tmp_path_factory)
    browser.size(1100, 900)
    browser.open(case.file)
    browser.run("block.focus()")
    browser.press("Home")
    said = browser.run("says.textContent")
    assert said.startswith("Nothing to show: ")
    assert "recurrent" in said
    assert browser.run("document.getElementById('top').hidden") is True
    browser.click("input[value=lens]")
    assert "reads as the answer behind block 0" in browser.run("says.textContent")


@pytest.mark.trained
@pytest.mark.parametrize("name", [*shapes.CHECKPOINTS, "llava_next", "mllama"])
def test_a_phone_has_all_of_it_and_nothing_runs_out_of_the_screen(browser, tmp_path_factory, tmp_path, name):
    if name in shapes.CHECKPOINTS:
        file = case_of(name, tmp_path_factory).file
    else:
        small = tiny(name)
        file = tmp_path / "page.html"
        file.write_text(explorer(explore(small.model, small.prompt, small.images, effect_layers=())))
    browser.size(360, 740, phone=True)
    browser.look()
    browser.open(file)
    browser.tap(".stage", 0.3, 0.3)
    assert browser.run("details.hidden") is False
    assert "(held)" in browser.run("place.textContent")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth && innerWidth == 360")
    parts = "[...document.querySelectorAll('.stage, #grid, #tokens, .controls')]"
    assert max(browser.run(f"{parts}.map(e => e.getBoundingClientRect().right)")) <= 360
    filled(browser.picture(".stage"))
    quiet(browser)


@pytest.mark.trained
def test_print_shows_the_picture_and_the_tables_and_no_controls(opened):
    opened.click(".stage", 0.3, 0.3)
    opened.look("print", dark=True)
    shown = "e => getComputedStyle(document.querySelector(e)).display"
    assert opened.run(f"['.controls', '.hint'].map({shown})") == ["none", "none"]
    assert "none" not in opened.run(f"['.stage', '#top', '#by-block', '#legend', '#tokens'].map({shown})")
    assert opened.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    filled(opened.picture(".stage"))
    file = opened.printed()
    assert file.startswith(b"%PDF")
    assert len(file) > 20_000


def contrast(one, other):
    """The contrast of two colours as WCAG 2 has it."""

    def light(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.trained
@pytest.mark.parametrize("dark", [False, True])
def test_writing_can_be_read_by_day_and_by_night(opened, dark):
    opened.look(dark=dark)
    opened.click(".stage", 0.3, 0.3)
    ground = opened.run("getComputedStyle(document.body).backgroundColor")
    for place in ("body", ".hint", "#by-block td", "#tokens span"):
        ink = opened.run(f"getComputedStyle(document.querySelector('{place}')).color")
        assert contrast(ink, ground) >= 4.5, place
    held = opened.run("getComputedStyle(document.querySelector('#by-block tr.now')).backgroundColor")
    assert contrast(opened.run("getComputedStyle(document.body).color"), held) >= 4.5
    assert contrast(ground, "rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)") > 10


@pytest.mark.slow
def test_a_large_page_follows_the_mouse(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(explorer(synthetic(text=24, cells=576)))
    browser.size(1100, 900)
    browser.look()
    browser.open(file)
    browser.move(".stage", 0.5, 0.5)
    assert browser.run("document.querySelectorAll('#by-block tbody tr').length") == 32
    before = browser.picture(".stage")
    browser.click('#tokens button[data-position="590"]')
    assert changed(before, browser.picture(".stage")) > 0.1
    assert browser.run("document.getElementById('head-now').textContent") == "mean, all that is kept"
    browser.click("#grid", 0.5, 0.5)
    quiet(browser)


# The command.


@pytest.fixture
def pictures(tmp_path):
    clean, corrupt = shapes.pair(3, checkpoint="shapes-llava", images=1)
    clean.image.save(tmp_path / "clean.png")
    corrupt.image.save(tmp_path / "corrupt.png")
    return tmp_path


@pytest.mark.trained
def test_the_command_writes_the_page_and_says_what_came_out(pictures):
    scene, other = shapes.pair(3, checkpoint="shapes-llava", images=1)
    given = ("--checkpoint", "shapes-llava", "--image", pictures / "clean.png", "--prompt", scene.question)
    out = pictures / "page.html"
    done = run(*given, "--corrupt", pictures / "corrupt.png", "--effect-blocks", "0,2", "--out", out)
    assert done.exit_code == 0, done.output
    assert f"answer: {scene.answer} (probability" in done.stdout
    assert f"page: {out}" in done.stdout
    text = out.read_text()
    assert Page.of(text).data["effects"]["layers"] == [0, 2]
    assert f"logit difference, {scene.answer} - {other.answer}" in text
    assert "http:" not in text
    assert "https:" not in text
    assert str(Path(shapes.checkpoint("shapes-llava")).parent) not in text


def test_the_command_refuses_what_cannot_work_before_it_loads(pictures, tmp_path):
    given = ("--checkpoint", "shapes-llava", "--prompt", "what?")
    clean = ("--image", pictures / "clean.png")
    assert "--image: there is no file 'nowhere.png'" in refused(*given, "--image", "nowhere.png")
    assert "--corrupt: 1 for 2 pictures" in refused(*given, *clean, *clean, "--corrupt", pictures / "corrupt.png")
    assert "is a folder; pass a file" in refused(*given, *clean, "--out", tmp_path)
    assert "there is no folder" in refused(*given, *clean, "--out", "/nowhere/page.html")
    assert "is no list of blocks" in refused(*given, *clean, "--effect-blocks", "some")
    (pictures / "broken.png").write_bytes((pictures / "clean.png").read_bytes()[:40])
    assert "cannot be read" in refused(*given, "--image", pictures / "broken.png")
    assert "there is no file or folder '/nowhere'" in refused("--checkpoint", "/nowhere", "--prompt", "what?", *clean)


def test_the_command_says_why_a_text_model_shows_no_picture(pictures, tmp_path):
    # There are no weights to load before it says so.
    ROWS["llama"].config().save_pretrained(tmp_path / "llama")
    build.tokenizer("shapes-llava").save_pretrained(tmp_path / "llama")
    clean = ("--image", pictures / "clean.png", "--prompt", "what?")
    said = refused("--checkpoint", tmp_path / "llama", *clean, "--out", tmp_path / "page.html")
    assert "llama is a text model and has no tower" in said
