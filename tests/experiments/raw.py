"""Patching by hand: one forward per cell, with plain PyTorch hooks on the native modules."""

import torch


def first(served):
    return served[0] if isinstance(served, (tuple, list)) else served


def hooked(raw, place, encoding, edit):
    """The next token's logits, with ``edit`` applied to what enters or leaves a module."""
    path, point = place

    def before(module, args, kwargs):
        if args:
            return (edit(args[0]), *args[1:]), kwargs
        name = next(iter(kwargs))
        return args, {**kwargs, name: edit(kwargs[name])}

    def after(module, args, output):
        edited = edit(first(output))
        return type(output)([edited, *output[1:]]) if isinstance(output, (tuple, list)) else edited

    module = raw.get_submodule(path)
    if point == "input":
        handle = module.register_forward_pre_hook(before, with_kwargs=True, prepend=True)
    else:
        # transformers collects hidden states with hooks of its own, which must see the edit.
        handle = module.register_forward_hook(after, prepend=True)
    try:
        with torch.no_grad():
            return raw(**encoding).logits[0, -1]
    finally:
        handle.remove()


def captured(raw, place, encoding):
    """What enters or leaves a module, and the next token's logits."""
    held = []

    def keep(tensor):
        held.append(tensor.clone())
        return tensor

    logits = hooked(raw, place, encoding, keep)
    return held[0], logits


def patched(rig, value, layer, positions):
    """The corrupt run's logits with some rows of a value taken from the clean run."""
    place = rig.native(value, layer)
    clean, _ = captured(rig.raw, place, rig.clean)
    clean = clean.reshape(-1, clean.shape[-1])

    def edit(tensor):
        rows = tensor.reshape(-1, tensor.shape[-1]).clone()
        rows[list(positions)] = clean[list(positions)]
        return rows.view(tensor.shape)

    return hooked(rig.raw, place, rig.corrupt, edit)
