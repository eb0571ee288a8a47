"""What a notebook shows needs no other file, and stays small."""

from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO

import pytest
import torch
from PIL import Image

from belvedere import StandardizedTransformer, geometry, plot, shapes
from belvedere.experiments import (
    AttentionResult,
    KnockoutResult,
    LensResult,
    PatchResult,
    RelevanceResult,
    SteeringResult,
    SteeringVector,
    attention,
)
from belvedere.plot.inline import inlined, small_png

LIMIT = 300_000


class Page(HTMLParser):
    """The tags of a page, those that are closed, its words, and the pictures in it."""

    def __init__(self, text):
        super().__init__()
        self.open, self.closed, self.words, self.pictures = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.pictures.append(dict(attrs))
        else:
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.closed.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def opened(tag):
    start = "data:image/png;base64,"
    assert tag["src"].startswith(start)
    return Image.open(BytesIO(b64decode(tag["src"][len(start) :])))


def noise(panels):
    size = (240, 240)
    image = Image.fromarray(torch.randint(0, 256, (*size, 3), dtype=torch.uint8).numpy())
    boxes, titles = geometry.cell_boxes(24, 24, size), [str(number) for number in range(panels)]
    return plot.strips(torch.randn(panels, 576), boxes, image, titles=titles, heading="h", unit="u")


@pytest.mark.parametrize("panels", [1, 40])
def test_a_figure_is_no_larger_than_it_may_be(panels):
    figure = noise(panels)
    made = small_png(figure)
    assert len(made) <= 200_000
    width, _ = Image.open(BytesIO(made)).size
    assert width >= 20 * figure.get_size_inches()[0] - 1
    assert len(inlined(figure, "x")) < LIMIT


def results():
    two = torch.tensor([[0.1, 0.9], [0.2, -0.3]])
    shared = {"settings": {"model": "<b>", "metric": "a < b"}}
    nowhere = {"boxes": torch.full((2, 4), torch.nan), "images": torch.tensor([-1, -1])}
    words = {"1": "<i>one", "2": "two"}
    yield PatchResult(
        effects=two, raw=two, layers=(0, 1), positions=((0,), (1,)), clean=1.0, corrupt=0.0, value="v", **shared
    )
    yield KnockoutResult(
        effects=two, raw=two, mass=two, plain=1.0, names=("<x>", "y"), windows=((0,), (1,)), stack="text", **shared
    )
    ids = torch.tensor([[[1], [2]], [[2], [1]]])
    yield LensResult(
        tokens=ids, probabilities=two.abs()[..., None], watched=torch.empty(2, 2, 0), watch=(), words=words,
        layers=(0, 1), positions=(0, 1), value="v", **nowhere, **shared,
    )  # fmt: skip
    yield RelevanceResult(
        relevance=two, ids=torch.tensor([1, 2]), links=torch.empty(0, 2, dtype=torch.long), tokens=(1, 2),
        patch_boxes=torch.empty(0, 4), patch_images=torch.empty(0, dtype=torch.long), words=words, method="gradient",
        **nowhere, **shared,
    )  # fmt: skip
    yield AttentionResult(
        attention=torch.tensor([[[[0.25, 0.75]]]]), layers=(0,), queries=(1,), texts=("<u>", "b"),
        kinds=torch.tensor([-1, -1]), stack="text", **nowhere, **shared,
    )  # fmt: skip
    yield SteeringVector(
        vector=torch.ones(4), positive=torch.tensor([0.4, 0.6]), negative=torch.tensor([-0.5]), layer=0, **shared
    )
    yield SteeringResult(
        scores=torch.tensor([0.1, 0.2]), tokens=ids[0], factors=(0.0, 1.0), texts=("<p>", "b"), layer=0, **shared
    )


@pytest.mark.parametrize("result", list(results()), ids=lambda result: type(result).__name__)
def test_every_result_shows_its_summary_table_and_plot(result):
    text = result._repr_html_()
    page = Page(text)
    assert sorted(page.open) == sorted(page.closed), "what is written is no tag"
    assert repr(result) in page.words
    assert all(cell in page.words for cells in result.lines() for cell in cells if cell)
    (picture,) = page.pictures
    assert picture["alt"] == result.title
    assert len(set(opened(picture).convert("L").tobytes())) > 8
    assert len(text) < LIMIT


@pytest.mark.trained
def test_a_long_result_shows_its_first_lines_and_its_pictures():
    model = StandardizedTransformer(shapes.checkpoint("shapes-llava"), dispatch=True)
    scene = shapes.sample(8, checkpoint="shapes-llava", images=2)
    shown = {"text": scene.prompt, "images": scene.images}
    page = Page(attention(model, shown, "all")._repr_html_())
    assert page.open.count("tr") == 101
    assert "lines more" in "".join(page.words)
    one = attention(model, shown)
    page = Page(one._repr_html_())
    of_file = replace(one, pictures=())
    assert opened(page.pictures[0]).height > opened(Page(of_file._repr_html_()).pictures[0]).height
