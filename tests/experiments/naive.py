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


def last_of(encoding):
    return int(encoding.get("attention_mask", torch.ones_like(encoding["input_ids"]))[0].nonzero().max())


@torch.no_grad()
def ablated(model, shown, value, metric, layers, groups, vectors):
    """``[layer, group]``: the metric with each group of rows replaced by ``vectors(layer, group)``."""
    raw, last = torch.empty(len(layers), len(groups)), last_of(shown)
    for row, layer in enumerate(layers):
        host, name = hosted(model, value, layer)
        for column, group in enumerate(groups):
            new = vectors(layer, group)
            with model.trace(**shown):
                written = getattr(host, name).clone(memory_format=torch.contiguous_format)
                flat(written)[list(group)] = new
                setattr(host, name, written)
                logits = nnsight.save(model.logits[:, last].float())
            raw[row, column] = metric(logits)
    return raw


@torch.no_grad()
def mean_of(model, references, value, layer, positions):
    """The mean of a value over some positions of some inputs."""
    host, name = hosted(model, value, layer)
    rows = []
    for shown in references:
        with model.trace(**shown):
            held = flat(getattr(host, name)).clone().save()
        rows.append(held[positions(shown)])
    return torch.cat(rows).mean(0)


def cut_pattern(pattern, queries, keys, renormalize):
    """``[heads, query, key]`` with some edges at zero, the rest of the row scaled up to its sum."""
    new = pattern.clone()
    for query in queries:
        before = new[:, query].sum(-1, keepdim=True)
        new[:, query, keys] = 0
        after = new[:, query].sum(-1, keepdim=True)
        if renormalize:
            new[:, query] *= torch.where(after > 0, before / after, 0)
    return new


@torch.no_grad()
def cut(model, shown, stack, edges, metric, windows, renormalize):
    """``[edges, window]``: the metric with each pair's edges cut in each window's blocks."""
    raw, last = torch.empty(len(edges), len(windows)), last_of(shown)
    for row, (queries, keys) in enumerate(edges):
        for column, span in enumerate(windows):
            with model.trace(**shown):
                for layer in span:
                    if stack == "text":
                        host = model.layers[layer].self_attn
                        pattern = host.attention_probabilities[0]
                        host.attention_probabilities = cut_pattern(pattern, queries, keys, renormalize)[None]
                    else:
                        host = model.vision.layers[layer].self_attn
                        host.segment_probabilities = cut_segments(
                            host.segment_probabilities, queries, keys, renormalize
                        )
                logits = nnsight.save(model.logits[:, last].float())
            raw[row, column] = metric(logits)
    return raw


def cut_segments(patterns, queries, keys, renormalize):
    """The same over the segments of a tower, whose rows are counted on."""
    made, start = [], 0
    for pattern in patterns:
        inside = range(start, start + pattern.shape[1])
        chosen = ([number - start for number in numbers if number in inside] for numbers in (queries, keys))
        made.append(cut_pattern(pattern, *chosen, renormalize))
        start = inside.stop
    return made


def attributed(model, clean, corrupt, value, metric, layers, groups, steps):
    """``[layer, group]``: the mean gradient on the way of all rows of a block from corrupt to clean, times the way."""
    raw, last = torch.empty(len(layers), len(groups)), last_of(corrupt)
    moved = sorted({number for group in groups for number in group})
    for row, layer in enumerate(layers):
        host, name = hosted(model, value, layer)
        ends = []
        for shown in (clean, corrupt):
            with torch.no_grad(), model.trace(**shown):
                held = flat(getattr(host, name)).clone().save()
            ends.append(held)
        way, total = ends[0] - ends[1], torch.zeros_like(ends[0])
        for step in range(steps):
            with torch.enable_grad():
                with model.trace(**corrupt):
                    leaf = getattr(host, name).detach().clone(memory_format=torch.contiguous_format)
                    flat(leaf)[moved] += (step + 0.5) / steps * way[moved]
                    leaf.requires_grad_().save()
                    setattr(host, name, leaf)
                    logits = nnsight.save(model.logits[:, last].float())
                (gradient,) = torch.autograd.grad(metric(logits).sum(), leaf, allow_unused=True)
            total += 0 if gradient is None else flat(gradient) / steps
        each = (total * way).sum(-1)
        raw[row] = torch.stack([each[list(group)].sum() for group in groups])
    return raw
