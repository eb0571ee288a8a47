"""What tests of a staged tower share: which wrappers have one, and what a raw module's text gets of pictures."""

from typing import Any

import torch
from truth import hooked

from belvedere.testing import ROWS

WRAPPERS = [name for name, row in ROWS.items() if row.tower and not row.blockless]


def features_of(module: torch.nn.Module, checkpoint: Any, inputs: dict[str, Any] | None = None) -> torch.Tensor:
    """What a raw module's text stack gets of the pictures: at the placeholders, or to attend to; flat."""
    inputs = inputs or checkpoint.inputs
    return features_in(hooked(module, inputs, checkpoint.row.stack)[checkpoint.row.stack][1], checkpoint, inputs)


def features_in(given: dict[str, Any], checkpoint: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """The same, of what a text stack is called with."""
    if checkpoint.row.cross:
        return given["cross_attention_states"].flatten(0, -2)
    return given["inputs_embeds"][inputs["input_ids"] == checkpoint.model.placeholder("image")]
