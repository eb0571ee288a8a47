"""Experiments: functions of a `StandardizedTransformer` that return a small result with tensors, a table and a plot.

`patch` is activation patching. Two inputs differ in one thing, and the model answers them differently: the *clean*
and the *corrupt* run. Copy a single activation of the clean run into the corrupt one, at one block and one position,
and see how much of the clean answer comes back. At every block and position, this maps where the difference is held::

    from belvedere.experiments import logit_difference, patch

    result = patch(model, clean, corrupt, "layers.layer_output", logit_difference(red, blue))
    result.table()
    result.overlay(picture)

The others ask in the same way:

``attribute``
    what `patch` would find, to first order, from one backward;
``knockout``
    what changes when some positions no longer attend to others;
``ablate``
    what goes when a value is taken away; `stand_in` does it inside a trace;
``lens``, ``tower_lens``
    what positions read as at each block;
``steering_vector``, ``steer``
    a direction of the stream, and what the model writes under it;
``attention``
    where a position looks, in the picture and in the prompt;
``relevance``
    which tokens and patches a word of the answer has to do with.
"""

from belvedere.experiments.ablation import AblationResult, StandIn, ablate, stand_in
from belvedere.experiments.attention import attention
from belvedere.experiments.attentions import AttentionResult
from belvedere.experiments.attribution import AttributionResult, attribute
from belvedere.experiments.knockout import KnockoutResult, knockout
from belvedere.experiments.lens import lens, tower_lens
from belvedere.experiments.maps import Cell, MapResult
from belvedere.experiments.metrics import Metric, kl_divergence, logit, logit_difference, probability, rank
from belvedere.experiments.patching import patch
from belvedere.experiments.places import patch_boxes, token_boxes
from belvedere.experiments.readings import LensResult
from belvedere.experiments.relevance import relevance
from belvedere.experiments.relevances import RelevanceResult
from belvedere.experiments.result import PatchResult
from belvedere.experiments.saved import Result
from belvedere.experiments.steering import SteeringResult, SteeringVector, steer, steering_vector
from belvedere.experiments.where import Inside, Where

__all__ = [
    "AblationResult",
    "AttentionResult",
    "AttributionResult",
    "Cell",
    "Inside",
    "KnockoutResult",
    "LensResult",
    "MapResult",
    "Metric",
    "PatchResult",
    "RelevanceResult",
    "Result",
    "StandIn",
    "SteeringResult",
    "SteeringVector",
    "Where",
    "ablate",
    "attention",
    "attribute",
    "kl_divergence",
    "knockout",
    "lens",
    "logit",
    "logit_difference",
    "patch",
    "patch_boxes",
    "probability",
    "rank",
    "relevance",
    "stand_in",
    "steer",
    "steering_vector",
    "token_boxes",
    "tower_lens",
]
