"""Every tower has a page, and what the pages say is so."""

import re

import pytest
from door.pages import ROOT
from door.test_pictures import loaded

from belvedere import StandardizedTransformer, families
from belvedere.testing import ROWS

made = loaded("_made")
FOLDER = ROOT / "docs/towers"
TOWERS = families.known("towers")


def written(tower) -> str:
    return (FOLDER / f"{tower}.md").read_text()


def test_every_tower_has_a_page_and_every_page_a_tower():
    assert {page.stem for page in FOLDER.glob("*.md")} - {"index"} == set(TOWERS)
    assert set(re.findall(r"towers/(\w+)\.md", (ROOT / "mkdocs.yml").read_text())) - {"index"} == set(TOWERS)


@pytest.mark.parametrize("tower", TOWERS)
def test_a_page_asks_for_its_own_tower_and_says_what_is_unusual(tower):
    asked = [(maker, arguments.strip()) for maker, arguments, _ in made.MARKER.findall(written(tower))]
    assert asked == [("tower", tower), ("inside", tower)]
    own = written(tower).partition("## What to know\n")[2].partition("<!-- made")[0]
    assert len(re.findall("^- .", own, re.MULTILINE)) >= 2


def test_no_two_pages_say_the_same():
    said = [written(tower).replace(tower, "") for tower in TOWERS]
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("tower", TOWERS)
def test_a_name_that_a_page_gives_a_value_is_one(tower):
    config = ROWS[made._towers._pictures.PICTURES[tower].row].config()
    model = StandardizedTransformer.from_config(config)
    page = made.on_page_markdown(written(tower))
    listed = set(re.findall(r"^\| `(vision\.[\w.]+)` \|", page.partition("## Values")[2], re.MULTILINE))
    assert listed == {name for name in model.support() if name.startswith("vision.")}
    for name, reason in model.support().items():
        if name.startswith("vision.") and reason is None:
            assert re.search(rf"^\| `{re.escape(name)}` \| (served|recomputed)", page, re.MULTILINE), name


def test_a_page_says_rows_and_sizes_that_are_known():
    clip = made.on_page_markdown(written("clip_vision_model"))
    assert "17 rows (16 patches, 1 CLS), 16 image tokens" in clip
    assert "| `vision.num_layers` | 24 |" in clip
    assert "| `layers` | `encoder.layers` |" in clip
    assert "| `vision.layers.attention_probabilities` | recomputed" in clip
    windows = made.on_page_markdown(written("qwen2_5_vl_vision"))
    assert "**Order of the patches**: window by window" in windows
    assert "`vision.layers.attention_probabilities` | this tower's attention runs once per picture" in windows
    last = made.on_page_markdown(written("llama4_vision_model"))
    assert "**Behind the patches**: 1 row, CLS" in last


def test_the_list_of_towers_leads_to_each():
    links = re.findall(r"\[`(\w+)`\]\((\w+)\.md\)", made.on_page_markdown((FOLDER / "index.md").read_text()))
    assert links == [(tower, tower) for tower in TOWERS]
