"""Attention over a packed row in one call, so that a compiler sees no loop over pictures.

A packed tower's attention splits its row at the bounds of the segments, in Python, and calls the kernel once for each:
a graph of it holds for that many segments of those sizes alone. Here the segments are laid out beforehand, by index
tensors made once for a pack, and one call serves them all, whatever their number and sizes.

Each segment's queries are dealt out to slots of one length, half of the longest segment's; a slot's keys are the whole
of its segment. So there are always two slots at least (a compiler treats a size of one apart), as many products as
segments of one length need, and fewer than one slot to a segment would take where lengths differ.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Iterable
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["BOUNDS", "Pack", "bare", "packed", "splits"]

#: The keyword by which a packed tower's blocks get the bounds of the segments, and that of the longest one's length.
BOUNDS, LONGEST = "cu_seqlens", "max_seqlen"
#: The keyword by which the blocks hand their pack on to the attention.
PACK = "belvedere_pack"
#: A name with "flash" in it: so transformers hands over the whole row in one call.
NAME = "belvedere_not_flash_but_as_flash"


class Pack(NamedTuple):
    """The attending segments of a packed row, by index.

    Args:
        queries: ``[slots, queries]``: the row of each slot's queries, 0 where there is none.
        keys: ``[slots, keys]``: the row of each slot's keys, 0 where there is none.
        real: ``[slots, 1, 1, keys]``: which of the keys are there.
        back: ``[patches]``: each row's place among the slots' queries, all in a line.
    """

    queries: Tensor
    keys: Tensor
    real: Tensor
    back: Tensor

    @classmethod
    def of(cls, bounds: Tensor) -> Pack:
        """The pack of a row with these bounds, ``[segments + 1]``."""
        ends = bounds.cpu().long()
        lengths = ends.diff()
        first, lengths = ends[:-1][lengths > 0], lengths[lengths > 0]
        longest = max(2, int(lengths.max()))
        share = max(2, -(-longest // 2))
        shares = -(-lengths // share)
        # Two slots at least; a second one of a segment that needs one has no queries.
        shares[-1] += max(0, 2 - int(shares.sum()))
        own = torch.arange(len(lengths)).repeat_interleave(shares)
        turn = torch.arange(len(own)) - (shares.cumsum(0) - shares)[own]
        queries = (first[own] + turn * share)[:, None] + torch.arange(share)
        asks = queries < (first + lengths)[own][:, None]
        keys = first[own][:, None] + torch.arange(longest)
        real = torch.arange(longest) < lengths[own][:, None]
        back = torch.empty(int(ends[-1]), dtype=torch.long)
        back[queries[asks]] = torch.arange(queries.numel()).view_as(queries)[asks]
        made = (queries.where(asks, 0), keys.where(real, 0), real[:, None, None], back)
        return cls(*(held.to(bounds.device) for held in made))


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any = None, **given: Any
) -> tuple[Tensor, None]:
    """The attention of a packed row, as transformers' interface calls it: ``[1, heads, patches, head_dim]`` each."""
    pack: Pack = given[PACK]
    queries, keys, values = query[0][:, pack.queries], key[0][:, pack.keys], value[0][:, pack.keys]
    mixed = torch.nn.functional.scaled_dot_product_attention(
        queries.transpose(0, 1),
        keys.transpose(0, 1),
        values.transpose(0, 1),
        attn_mask=pack.real,
        dropout_p=given.get("dropout", 0.0),
        scale=given.get("scaling"),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    # [slots, heads, queries, head_dim] to [1, patches, heads, head_dim].
    return mixed.transpose(1, 2).flatten(0, 1)[pack.back][None], None


def splits(block: torch.nn.Module) -> bool:
    """Whether a block splits its row in Python, at bounds that it is called with; flash attention takes the whole."""
    from transformers.utils.generic import is_flash_attention_requested

    configs = [vars(part)["config"] for part in block.modules() if "config" in vars(part)]
    takes_bounds = BOUNDS in inspect.signature(type(block).forward).parameters
    return takes_bounds and not any(is_flash_attention_requested(config) for config in configs)


def packed(kwargs: dict[str, Any], pack: Pack) -> dict[str, Any]:
    """A block's keywords for attention in one call; the longest length is only asked for where it is not given."""
    return {**kwargs, BOUNDS: None, LONGEST: 0, PACK: pack}


def bare(blocks: Iterable[torch.nn.Module], *, in_one_call: bool) -> list[torch.nn.Module]:
    """The same blocks for a compiler: their own parameters and code, without what hooks and traces hang on them.

    Args:
        blocks: Blocks of a tower.
        in_one_call: Whether their attention is to be given the whole row and a `Pack`.
    """
    memo: dict[int, Any] = {}
    return [_bare(block, in_one_call, memo) for block in blocks]


def _bare(module: torch.nn.Module, in_one_call: bool, memo: dict[int, Any]) -> torch.nn.Module:
    twin: torch.nn.Module = object.__new__(type(module))
    own = vars(twin)
    # The dictionaries of parameters and buffers are the module's own, so weights that are loaded later are seen.
    own.update(vars(module))
    own["_forward_hooks"], own["_forward_pre_hooks"] = OrderedDict(), OrderedDict()
    own["_modules"] = {
        name: None if below is None else _bare(below, in_one_call, memo) for name, below in module._modules.items()
    }
    _own_forward(twin)
    if in_one_call and "config" in own:
        own["config"] = _as_flash(own["config"], memo)
    return twin


def _own_forward(twin: torch.nn.Module) -> None:
    """Give a twin the forward that nnsight found on the module."""
    from nnsight.intervention.source import STATE, Controller

    state = vars(twin).pop(STATE, None)
    if state is None or not isinstance(vars(twin).get("forward"), Controller):
        return
    del vars(twin)["forward"]
    if state.original is not type(twin).forward:
        vars(twin)["forward"] = MethodType(state.original, twin)


def _as_flash(config: Any, memo: dict[int, Any]) -> Any:
    """A copy of a config under which the attention is given the whole row in one call."""
    from transformers import AttentionInterface

    if id(config) not in memo:
        AttentionInterface.register(NAME, attention)
        memo[id(config)] = copy.deepcopy(config)
        memo[id(config)]._attn_implementation = NAME
    return memo[id(config)]
