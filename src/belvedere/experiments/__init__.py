"""Experiments: functions of a `StandardizedTransformer` that return a small result with tensors, a table and a plot.

`patch` is activation patching. Two inputs differ in one thing, and the model answers them differently: the *clean*
and the *corrupt* run. Copy a single activation of the clean run into the corrupt one, at one block and one position,
and see how much of the clean answer comes back. At every block and position, this maps where the difference is held::

    from belvedere.experiments import logit_difference, patch

    result = patch(model, clean, corrupt, "layers.layer_output", logit_difference(red, blue))
    result.table()
    result.overlay(picture, token_boxes(model, clean, picture.size))
"""

from belvedere.experiments.metrics import Metric, logit_difference, probability
from belvedere.experiments.patching import patch
from belvedere.experiments.places import patch_boxes, token_boxes
from belvedere.experiments.result import Cell, PatchResult

__all__ = [
    "Cell",
    "Metric",
    "PatchResult",
    "logit_difference",
    "patch",
    "patch_boxes",
    "probability",
    "token_boxes",
]
