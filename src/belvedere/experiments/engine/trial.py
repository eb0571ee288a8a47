"""Whether an engine's answers are the model's: tried against whole forwards before a sweep relies on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nnsight
import torch
from torch import Tensor

if TYPE_CHECKING:
    from belvedere.experiments.engine.choice import Tried
    from belvedere.experiments.pairs import Groups, Pair
    from belvedere.experiments.sites import Site
    from belvedere.standardized import StandardizedTransformer

__all__ = ["holds"]


@torch.no_grad()
def holds(cells: Tried, model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups) -> bool | None:
    """Whether the cells agree with a whole forward in a trace, on one block of each kind.

    Half of the positions that a patch changes anything at are patched together, so that every difference shows and yet
    something comes before them. In the same trace the site is read, which must be what the cells take the corrupt run
    for.

    Returns:
        ``None`` where no patch on some kind of block changes anything, or only one at the last position, which runs
        alone, so that nothing can be said of others.
    """
    dtype = next(model.embed_tokens._module.parameters()).dtype
    chosen = _chosen(cells, site, groups)
    for layer, group in chosen.values():
        rows = torch.tensor(group)
        new, corrupt = cells.vectors(layer, rows)
        with cells.watching(), model.trace(**pair.corrupt.encoding):
            held = nnsight.save(site.rows(layer, rows))
            site.put(layer, rows, new)
            theirs = nnsight.save(model.logits[:, pair.corrupt.last].float())
        ours = cells.logits([(layer, group)])
        if not agree(corrupt, held, dtype) or not agree(ours, theirs, dtype):
            return False
    told = all(min(group) < pair.corrupt.last or site.is_tower for _, group in chosen.values())
    return True if told and len(chosen) == len({cells.kind(layer) for layer in site.hosts}) else None


def _chosen(cells: Tried, site: Site, groups: Groups) -> dict[str, tuple[int, tuple[int, ...]]]:
    """For each kind of block the first one at which anything changes, and the positions to patch there."""
    wanted = sorted({number for group in groups for number in group})
    found: dict[str, tuple[int, tuple[int, ...]]] = {}
    for layer in site.hosts:
        if cells.kind(layer) not in found:
            busy = [number for number in wanted if not cells.is_idle(layer, (number,))]
            if busy:
                # A single position at the end tells nothing of those that run several.
                found[cells.kind(layer)] = layer, tuple(busy[(len(busy) - 1) // 2 :])
    return found


def agree(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> bool:
    """Whether two ways to the same numbers differ by no more than a model of this type rounds."""
    if ours.shape != theirs.shape:
        return False
    scale = float(theirs.abs().amax())
    # Parts of a model, such as a recurrent state, are in single precision whatever its type.
    rounding = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    return bool((ours - theirs).abs().amax() <= 8 * scale * rounding**0.75)
