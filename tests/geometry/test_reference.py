"""The reference of geometry, against its door."""

import re
from pathlib import Path

from belvedere import geometry

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "geometry.md"


def test_every_name_has_its_place_in_the_reference():
    assert sorted(re.findall(r"^::: belvedere\.geometry\.(\w+)$", PAGE.read_text(), re.MULTILINE)) == sorted(
        geometry.__all__
    )
