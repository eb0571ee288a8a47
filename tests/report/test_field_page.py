"""The field's page: whole in itself; its filters hide, its headings sort, and its address keeps both, in a browser."""

import re

import numpy as np
import pytest
from fielded import columns, dumped, field, needs_a_browser, opened, page, rows, types
from PIL import Image


def test_the_page_needs_nothing_beside_itself():
    assert not re.search(r"https?:|src=|@import|<link|url\(", page())
    assert len(page()) < 1_500_000


def test_every_reason_is_in_the_list_and_every_number_leads_to_one():
    listed = dict(re.findall(r'<li id="reason-(\d+)">(.*)</li>', page()))
    assert len(listed) == len(field().reasons)
    assert set(re.findall(r'href="#reason-(\d+)"', page())) == set(listed)
    for name, one in types().items():
        row = re.search(rf'<tr[^>]* data-name="{re.escape(name)}".*?</tr>', page(), re.DOTALL)[0]
        assert ('class="missing"' in row) == (one.state == "missing")
        assert row.count("<td") == 3 + (0 if one.state == "missing" else 4 + len(field().values))


def test_colour_is_never_the_only_sign():
    signs = {"served": "✓", "recomputed": "↻", "some": "◐", "lacking": "✕"}
    cells = re.findall(r'data-kind="(\w+)".*?aria-hidden="true">(.)</span><span class="unseen">([\w ]+)<', page())
    assert len(cells) == sum(len(one.standings) for one in field().types)
    assert {(kind, sign) for kind, sign, _ in cells} == set(signs.items())
    assert 'class="mark">not served<' in page()


@needs_a_browser
def test_an_address_without_filters_shows_all(tmp_path):
    dom = dumped(tmp_path)
    assert rows(dom) == sorted(types())
    assert columns(dom) == list(field().values)
    assert f"{len(types())} of {len(types())} types" in dom


@needs_a_browser
@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("tower=clip_vision_model", lambda one: one.parts["tower"] == "clip_vision_model"),
        ("text=llama&state=missing", lambda one: one.parts["text"] == "llama" and one.state == "missing"),
        ("type=glm", lambda one: "glm" in one.name),
        ("state=some", lambda one: one.counts["some"] > 0),
        (
            "value=vision.rotary&state=served",
            lambda one: one.standings and one.standings["vision.rotary"].kind == "served",
        ),
        (
            "reason=once+per+picture",
            lambda one: any("once per picture" in standing.because for standing in one.standings.values()),
        ),
        ("reason=timm", lambda one: "timm" in one.says or one.parts["tower"] == "timm_wrapper"),
    ],
)
def test_a_filter_leaves_the_rows_that_it_should(tmp_path, asked, kept):
    dom = dumped(tmp_path, f"#{asked}")
    wanted = [name for name in sorted(types()) if kept(types()[name])]
    assert rows(dom) == wanted
    assert 0 < len(wanted) < len(types())
    value = re.findall(r"value=([^&]*)", asked)
    assert columns(dom) == [one for one in field().values if not value or value[0] in one]


@needs_a_browser
def test_a_click_sorts_and_a_second_one_turns_the_order(tmp_path):
    click = "document.querySelector('[data-key=lacking] button').click();"
    once, twice = dumped(tmp_path, script=click), dumped(tmp_path, script=click * 2)
    built = {name: one.counts["lacking"] for name, one in types().items() if one.standings}
    up = sorted(built, key=lambda name: (built[name], name))
    down = sorted(built, key=lambda name: (-built[name], name))
    missing = [name for name in sorted(types()) if name not in built]
    assert rows(once) == up + missing
    assert rows(twice) == down + missing
    assert re.search(r'data-key="lacking" aria-sort="ascending"', once)
    assert re.search(r'data-key="lacking" aria-sort="descending"', twice)


@needs_a_browser
def test_a_value_sorts_by_how_it_stands_and_the_address_says_so(tmp_path):
    script = """
        document.querySelector('[data-key="vision.rotary"] button').click();
        document.querySelector('[name=tower]').value = 'clip_vision_model';
        document.getElementById('filters').dispatchEvent(new Event('input'));
        document.title = location.hash;
    """
    dom = dumped(tmp_path, script=script)
    assert "<title>#tower=clip_vision_model&amp;sort=vision.rotary</title>" in dom
    ordered = rows(dumped(tmp_path, "#sort=vision.rotary"))
    kinds = [types()[name].standings["vision.rotary"].kind for name in ordered if types()[name].standings]
    assert kinds == sorted(kinds, key=["served", "recomputed", "some", "lacking"].index)
    assert {*kinds} == {"served", "lacking"}


@needs_a_browser
def test_the_address_of_a_reason_leaves_the_filters_as_they_are(tmp_path):
    script = "location.hash = '#type=llava'; setTimeout(() => { location.hash = '#reason-3'; }, 100);"
    dom = opened(tmp_path, "", script, "--virtual-time-budget=2000", "--dump-dom")
    assert rows(dom) == [name for name in sorted(types()) if "llava" in name]


@needs_a_browser
def test_the_page_is_drawn_and_a_filter_changes_it(tmp_path):
    pictures = []
    for asked, size in (("", "1400,900"), ("#state=served", "1400,900"), ("", "400,900")):
        file = tmp_path / "shown.png"
        opened(tmp_path, asked, "", f"--window-size={size}", f"--screenshot={file}")
        pictures.append(np.asarray(Image.open(file).convert("RGB")).astype(int))
    whole, filtered, narrow = pictures
    red = np.array([0xFD, 0xE4, 0xE6])
    assert len(np.unique(whole.reshape(-1, 3), axis=0)) > 50
    assert (whole == np.array([0xE3, 0xF2, 0xE6])).all(-1).sum() > 500
    # What is red in the legend stays.
    assert (whole == red).all(-1).sum() > 20 * (filtered == red).all(-1).sum() > 0
    # At a phone's width the page does not scroll sideways: the table's own box does.
    assert narrow.shape[1] == 400
    dom = opened(
        tmp_path,
        "",
        "document.title = document.documentElement.scrollWidth <= innerWidth",
        "--window-size=400,900",
        "--dump-dom",
    )
    assert "<title>true</title>" in dom
