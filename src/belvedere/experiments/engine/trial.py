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
def holds(cells: Tried, model: StandardizedTransformer, pair: Pair, site: Site, groups: Groups) -> bool:
    """Whether the cells agree with a whole forward in a trace, on one block of each kind.

    Half of the swept positions are patched together, so that every difference shows and yet something comes before
    them. In the same trace the site is read, which must be what the cells take the corrupt run for.
    """
    dtype = next(model.embed_tokens._module.parameters()).dtype
    wanted = sorted({number for group in groups for number in group})
    group = tuple(wanted[len(wanted) // 2 :])
    rows = torch.tensor(group)
    for layer in {cells.kind(layer): layer for layer in reversed(site.hosts)}.values():
        clean, corrupt = cells.vectors(layer, rows)
        with cells.watching(), model.trace(**pair.corrupt.encoding):
            held = nnsight.save(site.rows(layer, rows))
            site.put(layer, rows, clean)
            theirs = nnsight.save(model.logits[:, pair.corrupt.last].float())
        ours = cells.logits([(layer, group)])
        if not agree(corrupt, held, dtype) or not agree(ours, theirs, dtype):
            return False
    return True


def agree(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> bool:
    """Whether two ways to the same numbers differ by no more than a model of this type rounds."""
    if ours.shape != theirs.shape:
        return False
    scale = float(theirs.abs().amax())
    # Parts of a model, such as a recurrent state, are in single precision whatever its type.
    rounding = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    return bool((ours - theirs).abs().amax() <= 8 * scale * rounding**0.75)
