"""The drawings of the vocabulary name values that are there, all of them, and lead to their rows."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from door.pages import ROOT
from door.test_pictures import loaded

from belvedere import StandardizedTransformer, components
from belvedere.components import Standard

made = loaded("_made")
diagram = made._diagram
PLAIN = ("Layer", "Attention", "Mlp", "Vision", "VisionLayer", "VisionAttention", "VisionMlp")
HOSTS = [
    StandardizedTransformer,
    *(held for held in vars(components).values() if isinstance(held, type) and issubclass(held, Standard)),
]


@pytest.fixture(scope="module")
def page() -> str:
    """The page of names and values, as it is built."""
    written = (ROOT / "docs/vocabulary.md").read_text()
    return made.on_page_markdown(made._hooks.on_page_markdown(written))


def present(host) -> set[str]:
    return {name for name, found in host.values().items() if found.at != ""}


@pytest.mark.parametrize("name", diagram.DRAWINGS)
def test_a_drawing_names_values_that_are_there(name):
    for held in diagram.drawn(diagram.DRAWINGS[name][0]):
        host = StandardizedTransformer if held.host == diagram.ROOT else getattr(components, held.host)
        assert held.name in present(host), held


@pytest.mark.parametrize("name", diagram.DRAWINGS)
def test_a_drawing_is_a_picture_with_a_label_for_each_value(name):
    svg = re.search(r"<svg.*</svg>", diagram.drawing(name))[0]
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox").split())
    labels = [text for link in root.iter("a") for text in link.iter("text")]
    assert [text.text for text in labels] == [held.name for held in diagram.drawn(diagram.DRAWINGS[name][0])]
    for text in root.iter("text"):
        assert 0 <= float(text.get("x")) <= width
        assert 0 <= float(text.get("y")) <= height - 2
    # Two labels that stand closer than a line would lie over each other.
    heights = sorted(float(text.get("y")) for text in labels)
    assert min(later - earlier for earlier, later in pairwise(heights)) >= 24


def test_what_a_plain_wrapper_has_is_drawn():
    plain = set().union(*(present(getattr(components, name)) for name in PLAIN), present(StandardizedTransformer))
    assert plain <= diagram.every_drawn()


def test_what_is_not_drawn_is_named_beside_the_drawings():
    every = set().union(*map(present, HOSTS))
    named = set(re.findall(r"\[`(\w+)`\]", made.undrawn()))
    assert not named & diagram.every_drawn()
    assert named | diagram.every_drawn() == every


def test_each_link_of_the_drawings_has_a_row(page):
    rows = re.findall(r'<span id="([\w.]+)">', page)
    links = re.findall(r'<a href="#([\w.]+)">', page) + re.findall(r"\]\(#(\w+\.\w+)\)", page)
    assert len(set(rows)) == len(rows)
    assert links
    assert set(links) <= set(rows)


def test_every_line_that_looks_like_a_request_is_one():
    for written in (ROOT / "docs").rglob("*.md"):
        text = written.read_text()
        found = made.MARKER.findall(text)
        assert text.count("<!-- made") == len(found), written
        assert {maker for maker, *_ in found} <= set(made.MAKERS)
