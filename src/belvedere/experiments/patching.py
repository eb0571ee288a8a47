"""Activation patching: copy one activation of a clean run into a corrupt one, and see what of the answer comes back.

The two inputs may be swapped: then the clean run is patched with activations of the corrupt one, and the effects say
what breaks the answer (noising) rather than what brings it back (denoising).

What can be patched:

``layers.layer_input``, ``vision.layers.mlp_output``, ...
    streams and what is added to them, by position;
``layers.attention_head_outputs``, ``vision.layers.attention_queries``, ...
    whatever is one vector per head and position, by head;
``vision.image_features``
    what is written over the placeholders, by image token. It is not all that a picture gives every text model: some
    also add to later blocks (deepstack), or make more than the stream of it;
``layers.state_input``
    the state of a recurrent mixer that a position finds, by head; by default at the first one behind the pictures.

Every cell of the map is the corrupt run with a few vectors of the clean one. `belvedere.experiments.engine` runs of it
only what they can change, many cells at once.

The measure follows "Locating and Editing Factual Associations in GPT" (Meng et al. 2022) and "Towards Best Practices of
Activation Patching" (Zhang and Nanda 2023): 0 is the corrupt run, 1 the clean one.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from belvedere.experiments import pictured
from belvedere.experiments.columns import Columns, Heads, Positions, columns_of
from belvedere.experiments.engine import DIGITS, Pace, Scores, Sweep, cells_of, digest, memory_of, weights_digest
from belvedere.experiments.metrics import Metric, bound, in_words, metric_name, told_apart
from belvedere.experiments.numbers import Layers, cells_at_once
from belvedere.experiments.pairs import Pair
from belvedere.experiments.progress import Bar
from belvedere.experiments.result import PatchResult
from belvedere.experiments.settled import experiment
from belvedere.experiments.sites import Site
from belvedere.experiments.where import model_name

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["patch"]


@experiment
def patch(
    model: StandardizedTransformer,
    clean: Mapping[str, Any],
    corrupt: Mapping[str, Any],
    value: str,
    metric: Metric,
    *,
    layers: Layers | None = None,
    positions: Positions | None = None,
    heads: Heads | None = None,
    batch_cells: int | None = None,
    progress: bool | None = None,
    file: str | PathLike[str] | None = None,
) -> PatchResult:
    """Patch a value from the clean run into the corrupt one, at each block and position, or at each block and head.

    Args:
        model: The model.
        clean: The input whose answer is to be restored, as `trace` takes it by keyword: an encoding from the processor,
            or ``{"text": prompt, "images": [picture]}``. One prompt.
        corrupt: The input that is patched, with as many tokens and with pictures of the same size. Swap the two to
            patch the other way: 0 is then the clean run as it is, and 1 the corrupt one.
        value: What is copied, by its standard path without a block number, such as ``layers.layer_output`` or
            ``vision.layers.mlp_output``; by head, ``layers.attention_head_outputs`` or ``layers.state_input`` (the
            state of a recurrent mixer that a position finds); or ``vision.image_features``, which is not the only way
            into every text model (deepstack): ``model.vision.entries()`` lists all.
        metric: What is measured: `logit_difference`, `probability`, or any function of the next token's logits,
            ``[rows, vocab] -> [rows]``.
        layers: The blocks; by default all that have the value.
        positions: A set of positions or several: numbers, lists of numbers that are patched together, names or `Inside`
            of a box of the clean picture. Numbers count tokens of the prompt, or rows of the tower over all pictures (a
            leading CLS is row 0). By default each image token (every token, where no picture is shown), or each patch;
            with heads, all together.
        heads: Heads, or lists of heads that are patched together, each at each set of positions; by default each alone.
        batch_cells: How many cells share one forward. By default as many as memory holds, and as long as more of them
            are faster, both measured as the sweep goes.
        progress: Whether to show a bar; by default where someone is watching, in a terminal or a notebook.
        file: Where to write the scores as they come. A sweep that was killed goes on from its file; one that is done
            is read from it.

    Returns:
        The effects: 0 where the patch leaves the corrupt run as it is, 1 where it restores the clean one.

    Raises:
        InputError: The inputs cannot be laid side by side, there is no such block, position, head or value, the metric
            does not give a number per row or is the same for both runs, or the file is another sweep's.
        Unavailable: The checkpoint does not have the value, with the reason.
    """
    site = Site.find(model, value, layers, states=True)
    pair = Pair.align(model, clean, corrupt)
    columns = columns_of(model, pair, site, positions, heads)
    metric, batch_cells = in_words(model, metric), cells_at_once(batch_cells)
    return _swept(model, pair, site, columns, metric, batch_cells, progress, file)


def _swept(
    model: StandardizedTransformer,
    pair: Pair,
    site: Site,
    columns: Columns,
    metric: Metric,
    batch_cells: int | None,
    progress: bool | None,
    file: str | PathLike[str] | None,
) -> PatchResult:
    """The result of a sweep."""
    # The weights are loaded where they are not yet, as by a first trace.
    model.dispatch()
    cells, way = cells_of(model, pair, site, columns.units)
    metric = bound(metric, cells.ends[0])
    clean, corrupt = told_apart(metric, *cells.ends)
    layers = tuple(site.hosts)
    made = {"model": model_name(model), "metric": metric_name(metric)}
    about = {"value": site.path, **made, "layers": layers, "positions": columns.positions, "inputs": digest(pair)}
    about |= {"heads": columns.heads} if columns.heads else {}
    about |= {} if file is None else {"weights": weights_digest(model._module)}
    scores = Scores.of(about, (clean, corrupt), file)
    pace = Pace(memory_of(next(model.embed_tokens._module.parameters()).device), batch_cells)
    with Bar(site.path, scores.raw.numel(), progress) as bar:
        Sweep(cells=cells, layers=layers, groups=columns.units, metric=metric, pace=pace).run(scores, bar)
    return PatchResult(
        effects=(scores.raw - corrupt) / (clean - corrupt),
        raw=scores.raw,
        layers=layers,
        **pictured.located(model, (pair.clean, pair.corrupt), columns, tower=site.is_tower),
        clean=clean,
        corrupt=corrupt,
        value=site.path,
        settings=pictured.made_by(
            model, metric_name(metric), batch_cells=pace.most, **way, inputs=about["inputs"][:DIGITS]
        ),
    )
