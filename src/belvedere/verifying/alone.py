"""Clause 8: an answer depends neither on the batch that it is in, nor on padding, nor on the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from belvedere.components import NoVision
from belvedere.errors import InputError
from belvedere.verifying.bench import Bench, compared, near
from belvedere.verifying.clause import Answer, answered, silent
from belvedere.verifying.prompt import ADDED, longer
from belvedere.verifying.report import Difference

__all__ = ["alone"]

#: The kernel that every other one is an implementation of.
REFERENCE = "eager"


def alone(bench: Bench) -> Answer:
    """The input beside a longer prompt with other pixels, so that it is padded; and under the reference kernel."""
    done: list[str] = []
    notes: list[str] = []
    differences: list[Difference] = []
    plain = _by_itself(bench)
    try:
        beside = _beside(bench, longer(bench.model, bench.encoding))
    except InputError as refusal:
        notes.append(f"not beside another prompt: {refusal}")
    else:
        done.append(f"beside a prompt of {ADDED} tokens more and other pixels, and so padded")
        differences += _compared(bench, "beside another prompt", beside, plain)
    configs = _configs(bench)
    kernels = sorted({str(config._attn_implementation) for config in configs})
    if kernels == [REFERENCE]:
        notes.append(f"the attention is {REFERENCE} already, which other kernels are measured by")
    else:
        done.append(f"with attention {REFERENCE} in place of {', '.join(kernels)}")
        with _attending(configs):
            differences += _compared(bench, f"with attention {REFERENCE}", _by_itself(bench), plain)
    if not done:
        return silent("; ".join(notes))
    return answered("; ".join([*done, "by what the number type rounds"]), differences, notes)


def _places(bench: Bench) -> list[tuple[Any, str]]:
    """What is compared: the tower's last stream, the text's, and the logits."""
    made = {(id(one.host), one.name) for one in bench.made}
    wanted = [(bench.model.layers[-1], "layer_output"), (bench.model, "logits")]
    if not isinstance(bench.model.vision, NoVision):
        wanted.insert(0, (bench.model.vision, "tower_output"))
    return [(host, name) for host, name in wanted if (id(host), name) in made]


def _by_itself(bench: Bench) -> list[Tensor]:
    places = _places(bench)
    return bench.trace(lambda: [getattr(host, name).clone() for host, name in places])


def _beside(bench: Bench, other: dict[str, Any]) -> list[Tensor]:
    """The values of the input's own invoke, where another one is in the same forward."""
    places, held = _places(bench), []
    with bench.model.trace() as tracer:
        with tracer.invoke(**bench.encoding):
            held.append([getattr(host, name).clone() for host, name in places])
        with tracer.invoke(**other):
            held.append([getattr(host, name).shape for host, name in places[-1:]])
    return held[0]


def _compared(bench: Bench, where: str, ours: list[Tensor], theirs: list[Tensor]) -> list[Difference]:
    found = []
    length = bench.encoding["input_ids"].shape[1]
    for (host, name), one, was in zip(_places(bench), ours, theirs, strict=True):
        path = host.values()[name].path(host)
        if host is not getattr(bench.model, "vision", None):
            # What is added as padding stands before the prompt, and what its own padding holds is the kernel's choice.
            one, was = bench.real(one[:, -length:]), bench.real(was)
        found += compared(path, f"{where} it is something else, apart", near(one, was))
    return found


def _configs(bench: Bench) -> list[Any]:
    """Every config of the model that names an attention kernel."""
    held = (getattr(part, "config", None) for part in bench.model._module.modules())
    found = {id(config): config for config in held if getattr(config, "_attn_implementation", None) is not None}
    return list(found.values())


@contextmanager
def _attending(configs: list[Any]) -> Iterator[None]:
    """Attention by the reference while it holds."""
    own = [config._attn_implementation_internal for config in configs]
    try:
        for config in configs:
            config._attn_implementation_internal = REFERENCE
        yield
    finally:
        for config, kernel in zip(configs, own, strict=True):
            config._attn_implementation_internal = kernel
