"""The page on availability has every reason that a known type gives."""

import re

import pytest
from door.test_pictures import loaded

from belvedere import StandardizedTransformer
from belvedere.testing import ROWS

made = loaded("_made")


@pytest.fixture(scope="module")
def table() -> dict[str, list[str]]:
    """The cells behind each reason."""
    lines = made._reasons.reasons("values").splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert all(len(row) == 3 for row in cells)
    return {row[0]: row[1:] for row in cells}


@pytest.mark.parametrize("name", ["llava", "qwen3_5", "qwen3_vl_moe", "mllama", "gemma4", "lfm2_vl", "llama"])
def test_a_reason_that_a_checkpoint_gives_stands_there_with_its_value(name, table):
    model = StandardizedTransformer.from_config(ROWS[name].config())
    own = model.family.wrapper or model.family.text
    for value, held in model.support().items():
        for reason in held.values() if isinstance(held, dict) else [held]:
            if reason is not None:
                values, types = table[reason.replace(own, "*type*")]
                assert f"`{value}`" in values
                assert f"`{own}`" in types or f"but `{own}`" not in types


def test_every_reason_has_a_cause_and_a_way_out(table):
    for reason in table:
        cause, _, cure = reason.partition("; ")
        assert cause, reason
        assert cure, reason


def test_what_nothing_reads_and_what_is_no_number_is_told():
    notes = made._reasons.reasons("notes")
    assert re.search(r"\| nothing reads this block: .* `vision\.layers\.mlp_output`.* `llava`", notes)
    assert re.search(r"any resolution.*`vision\.image_size`.*`qwen3_5`", made._reasons.reasons("sizes"))
