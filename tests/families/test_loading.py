"""A checkpoint on disk is the module that was saved: no weight is left random, and no processor is made up."""

import pytest
import torch

from belvedere import StandardizedTransformer
from belvedere.testing import ROWS, build

# One row of a type is enough: the rows of a type differ in their configs' fields.
TYPES = {row.config().model_type: name for name, row in reversed(ROWS.items())}


@pytest.mark.parametrize("name", TYPES.values())
def test_a_saved_checkpoint_loads_whole_and_without_a_processor(name, tmp_path):
    module = build(name)
    module.save_pretrained(tmp_path)
    model = StandardizedTransformer(tmp_path, dispatch=True)
    assert model.processor is None
    assert model.tokenizer is None
    saved = module.state_dict()
    for key, held in model._module.state_dict().items():
        assert torch.equal(held, saved[key]), key


@pytest.mark.parametrize("part", ["text", "tower"])
def test_an_entry_that_names_no_blocks_of_the_module_is_refused(part):
    other = {"text": "gpt2", "tower": "qwen2_vl_vision"}[part]
    with pytest.raises(ValueError, match=f"the {part} entry '{other}' does not fit .* which has no blocks at"):
        StandardizedTransformer(build("llava"), family={part: other})


def test_a_model_type_that_is_passed_by_itself_is_told_its_place():
    with pytest.raises(ValueError, match=r"pass family=\{'wrapper': 'llava_next'\}"):
        StandardizedTransformer(build("llava"), wrapper="llava_next")
