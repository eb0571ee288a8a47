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
