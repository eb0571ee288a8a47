"""The one-trace-per-cell sweep, written out."""

import nnsight
import torch


def hosted(model, value, layer):
    """The envoy that has a value on a block, and the value's own name."""
    stack, _, name = value.rpartition(".")
    block = (model.vision.layers if stack.startswith("vision.") else model.layers)[layer]
    mixers = [vars(block).get(part) for part in ("self_attn", "linear_attn", "cross_attn", "conv")]
    parts = [block, *mixers, vars(block).get("mlp")]
    return next(part for part in parts if part is not None and name in part.values()), name


def flat(held):
    return held.reshape(-1, held.shape[-1])


@torch.no_grad()
def swept(model, clean, corrupt, value, metric, layers, groups):
    """``[layer, group]``: the metric of the corrupt run, with each group of rows taken from the clean one."""
    raw = torch.empty(len(layers), len(groups))
    last = int(clean.get("attention_mask", torch.ones_like(clean["input_ids"]))[0].nonzero().max())
    for row, layer in enumerate(layers):
        host, name = hosted(model, value, layer)
        with model.trace(**clean):
            source = flat(getattr(host, name)).clone().save()
        for column, group in enumerate(groups):
            with model.trace(**corrupt):
                written = getattr(host, name).clone(memory_format=torch.contiguous_format)
                flat(written)[list(group)] = source[list(group)]
                setattr(host, name, written)
                logits = nnsight.save(model.logits[:, last].float())
            raw[row, column] = metric(logits)
    return raw
