"""The notebooks' page has all of them, with links that lead somewhere."""

import json
import re

import pytest
from door.pages import ROOT
from door.test_pictures import loaded

made = loaded("_made")
shown = made._notebooks
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_every_notebook_is_listed_with_a_title_and_a_sentence():
    written = made.on_page_markdown((ROOT / "docs/notebooks.md").read_text())
    listed = re.findall(r"^## \[.+\]\(notebooks/(\w+)\.md\)\n\n\S.{40}", written, re.MULTILINE)
    assert listed[0] == "first_look"
    assert sorted(listed) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_s_page_has_its_code_and_no_broken_link(name):
    page = shown.page(name)
    for cell in json.loads((ROOT / f"notebooks/{name}.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert f"```python\n{''.join(cell['source'])}\n```" in page
    for target in re.findall(r"\]\(([\w./]+)\)", page):
        if target.endswith(".ipynb"):
            assert (ROOT / "notebooks" / target).is_file()
        elif target.startswith("../"):
            assert (ROOT / "docs" / target.removeprefix("../")).is_file(), target
        elif target.endswith(".md"):
            assert target.removesuffix(".md") in NAMES
