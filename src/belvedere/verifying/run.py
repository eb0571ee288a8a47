"""The clauses in their order, run one after the other on a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from belvedere.errors import InputError, UnsupportedFamily
from belvedere.experiments.progress import Bar
from belvedere.families import compose
from belvedere.verifying.alone import alone
from belvedere.verifying.bench import Bench, at_rest, loaded
from belvedere.verifying.clause import Answer
from belvedere.verifying.hooks import hooked
from belvedere.verifying.patterns import patterns
from belvedere.verifying.prompt import prepared
from belvedere.verifying.reading import reading_everything
from belvedere.verifying.refusals import support_agrees
from belvedere.verifying.report import Difference, Outcome, Report
from belvedere.verifying.scatter import scatter_identity
from belvedere.verifying.sums import additivity
from belvedere.verifying.writing import writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from belvedere.standardized import StandardizedTransformer

__all__ = ["CLAUSES", "verify"]

#: The contract: each clause as a sentence, and what runs it.
CLAUSES: tuple[tuple[str, Callable[[Bench], Answer]], ...] = (
    ("layers[0].layer_input at the image tokens is image_features", scatter_identity),
    ("layer_input + attention_output + mlp_output is layer_output", additivity),
    ("reading every value changes nothing", reading_everything),
    ("a value written back changes nothing, another one changes the logits", writing),
    ("a value is what a PyTorch hook sees, and both paths are one envoy", hooked),
    ("probabilities @ values is head_outputs", patterns),
    ("support() and reading agree", support_agrees),
    ("the answer depends on neither batch nor padding nor kernel", alone),
)


def verify(
    model: StandardizedTransformer,
    data: Any = None,
    *,
    progress: bool | None = None,
    checkpoint: str = "",
    **keywords: Any,
) -> Report:
    """Run the contract on a model; see `StandardizedTransformer.verify`.

    Args:
        model: The model.
        data: What `trace` takes; a synthetic input by default.
        progress: Whether to show a bar; by default where someone is watching.
        checkpoint: What the report calls the model; by default what it was loaded from.
        **keywords: What `trace` takes by keyword.

    Raises:
        InputError: The model has no weights, or this is no input of it, or it makes no synthetic one.
    """
    loaded(model)
    encoding, shown = prepared(model, data, keywords)
    bench = Bench(model, encoding)
    outcomes = []
    name = checkpoint or _name(model)
    with at_rest(model._module), _quietly(), Bar(f"verify {name}", len(CLAUSES), progress, unit="clauses") as bar:
        settings = _settings(bench, shown)
        for number, (clause, run) in enumerate(CLAUSES, start=1):
            answer = _run(run, bench)
            outcomes.append(Outcome(number=number, clause=clause, **vars(answer)))
            bar.advance(1)
    return Report(checkpoint=name, clauses=tuple(outcomes), settings=settings)


def _run(run: Callable[[Bench], Answer], bench: Bench) -> Answer:
    """A clause's answer; one that raises has failed, and says with what."""
    try:
        return run(bench)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        found = Difference(where="the clause", what=f"could not be run to its end, {what}")
        return Answer(status="fail", checked="a run that raised", differences=(found,))


def _settings(bench: Bench, shown: str) -> Mapping[str, str]:
    module = bench.model._module
    weight = next(module.parameters())
    try:
        bench.logits  # noqa: B018 - an input that the model itself cannot run is no broken clause
    except (ValueError, RuntimeError, TypeError, KeyError, IndexError) as error:
        raise InputError(f"the model's own forward refuses this input: {type(error).__name__}: {error}") from error
    if not bool(bench.real(bench.logits).isfinite().all()):
        raise InputError(
            "the logits of a plain forward are not all finite, so nothing can be compared; load the model in a number "
            "type that holds its activations (float16 overflows first), and look for weights that are NaN"
        )
    ids = bench.encoding["input_ids"]
    return {
        "input": f"{shown}, {ids.shape[0]} x {ids.shape[1]} tokens",
        "number type": str(weight.dtype).removeprefix("torch."),
        "attention": str(module.config._attn_implementation),
        "device": str(weight.device),
        "family": _family(bench.model),
    }


def _family(model: StandardizedTransformer) -> str:
    """The model types of the parts, and where these are others than the config's."""
    try:
        own = vars(compose(model.source_config))
    except UnsupportedFamily:
        # The config's own type is on no shelf, which is why another was asked for.
        own = {}
    parts = {part: name for part, name in vars(model.family).items() if name is not None}
    others = {
        part: f" (asked for; the config says {own[part]})"
        for part, name in parts.items()
        if own.get(part, name) != name
    }
    return ", ".join(f"{part} {name}{others.get(part, '')}" for part, name in parts.items())


def _name(model: StandardizedTransformer) -> str:
    """What the model was loaded from, a folder by its own name; the class of a module that was made in memory."""
    given = str(getattr(model.source_config, "_name_or_path", "") or type(model._module).__name__)
    return Path(given).name if Path(given).is_dir() else given


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what libraries warn of where a prompt is padded or a kernel is exchanged."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
