"""The support matrix of the whole field: every vision-language model type that transformers knows, and every value.

Each type is built from its default config on the meta device, so no weight is loaded and no network is asked. A type
whose default config shows no picture, or that transformers itself cannot build, stands by the tiny config of the zoo
and says so. A type that nobody has described says what is missing, so the table is also the list of work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from belvedere import families
from belvedere.errors import UnsupportedFamily
from belvedere.loading import IMAGE_TEXT
from belvedere.report.matrix import support_matrix
from belvedere.report.standing import Lack, Standing, counts, reasons_of, standings
from belvedere.report.versions import image_text_types, versions
from belvedere.standardized import StandardizedTransformer

__all__ = ["Field", "ModelType", "survey"]

#: What a config may call its tower.
TOWERS = ("vision_config", "vq_config", "encoder")
#: The order of the columns.
STACKS = ("", "layers", "vision", "vision.layers")
State = Literal["served", "tiny", "text", "missing"]


@dataclass(frozen=True, kw_only=True)
class ModelType:
    """A model type of the field.

    Args:
        name: The ``model_type``.
        state: ``served`` by its default config, ``tiny`` by the zoo's, ``text`` where what transformers builds is a
            text model without a tower, ``missing`` where a part has no entry.
        parts: The model types of its wrapper, tower and text; empty where the config has none of its own.
        unknown: Those of the parts that have no entry.
        projector: The projector's class; empty where it is not known.
        standings: How each value stands; none where it is missing.
        reason: What is missing, and why, as the error says it that loading such a checkpoint raises.
        cause: Why alone.
        note: What to know of a type that is served by another config than its default, or without a tower.
    """

    name: str
    state: State
    parts: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    projector: str = ""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    reason: str = ""
    cause: str = ""
    note: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """How many values are served, recomputed, there on some blocks only, and lacking."""
        return counts(self.standings)

    @property
    def says(self) -> str:
        """What is missing of it, or what to know of it, in one line; empty where there is nothing to say."""
        also = [f"{part} {self.parts[part]!r}" for part in self.unknown if f"{self.parts[part]!r}" not in self.reason]
        return f"{self.reason}; no entry either for its {' and its '.join(also)}" if also else self.reason or self.note


@dataclass(frozen=True, kw_only=True)
class Field:
    """The field: its model types, sorted, and the values of them all, by standard path."""

    types: tuple[ModelType, ...]
    values: tuple[str, ...]
    versions: Mapping[str, str]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason once: those of what is missing first, then those of values, by type."""
        missing = dict.fromkeys(one.says for one in self.types if one.says)
        lacking = reasons_of(standing for one in self.types for standing in one.standings.values())
        return tuple(dict.fromkeys((*missing, *lacking)))

    @property
    def stacks(self) -> dict[str, tuple[str, ...]]:
        """The values by what has them: the model (an empty name), ``layers``, ``vision``, ``vision.layers``, ..."""
        names = dict.fromkeys(value.rpartition(".")[0] for value in self.values)
        return {name: tuple(value for value in self.values if value.rpartition(".")[0] == name) for name in names}

    @property
    def tally(self) -> dict[str, int]:
        """How many cells of the table there are of each kind."""
        each = [one.counts for one in self.types]
        return {kind: sum(one[kind] for one in each) for kind in counts({})}

    @property
    def towers(self) -> tuple[str, ...]:
        """The towers' model types, sorted."""
        return tuple(sorted({one.parts["tower"] for one in self.types} - {""}))

    @property
    def texts(self) -> tuple[str, ...]:
        """The text stacks' model types, sorted."""
        return tuple(sorted({one.parts["text"] for one in self.types} - {""}))


def survey(watch: Callable[[list[str]], Iterable[str]] = iter) -> Field:
    """Build every model type of the field and ask what it supports.

    The types are those that transformers maps to image-text-to-text, and the wrappers of the shelf beside them.

    Args:
        watch: Wraps the list of names, to show how far it has come: ``rich.progress.track`` does.
    """
    names = sorted({*image_text_types(), *families.known("wrappers")})
    types = [_surveyed(name) for name in watch(names)]
    values = dict.fromkeys(value for one in types for value in one.standings)
    ordered = sorted(values, key=_stack_rank)
    return Field(
        types=tuple(replace(one, standings=_filled(one, ordered, types)) for one in types),
        values=tuple(ordered),
        versions=versions(),
    )


def _stack_rank(value: str) -> int:
    """The root's values, the text blocks', the tower's, its blocks'; within these the order stays."""
    stack = value.rpartition(".")[0]
    return STACKS.index(stack) if stack in STACKS else len(STACKS)


def _surveyed(name: str) -> ModelType:
    """One type, with the values that it has itself."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.for_model(name)
    except Exception as error:
        return _by_tiny(name, None, f"transformers makes no default config of it: {_short(error)}")
    try:
        model = StandardizedTransformer.from_config(config, task=IMAGE_TEXT)
    except UnsupportedFamily as error:
        return _missing(name, config, error.brief, error.cause or error.brief)
    except Exception:
        refusal = _refusal(config)
        if not refusal:
            raise
        return _by_tiny(name, config, f"transformers cannot build its default config: {refusal}")
    cause = model.vision.no_images()
    if cause is None:
        return _built(name, "served", model)
    if model.family.wrapper is not None:
        return _by_tiny(name, config, str(cause).partition(";")[0])
    built = type(model._module).__name__
    return _built(name, "text", model, f"transformers builds {built} from it: {cause}")


def _refusal(config: Any) -> str:
    """What transformers itself says when it cannot build a config; empty where it can, and the fault is elsewhere."""
    import transformers

    auto: Any = transformers.AutoModelForImageTextToText
    try:
        with torch.device("meta"):
            auto.from_config(config)
    except Exception as error:
        return _short(error)
    return ""


def _by_tiny(name: str, config: Any, why: str) -> ModelType:
    """A type whose default config shows nothing, by the zoo's config of that type."""
    # The zoo builds configs of every family, which only this needs.
    from belvedere.testing import ROWS

    if name not in ROWS or not ROWS[name].tower:
        return _missing(name, config, why, why)
    model = StandardizedTransformer.from_config(ROWS[name].config(), task=IMAGE_TEXT)
    return _built(name, "tiny", model, f"{why}; its values are those of a tiny config that Belvedere is tested with")


def _built(name: str, state: State, model: StandardizedTransformer, note: str = "") -> ModelType:
    family = model.family
    matrix = support_matrix(model, name)
    facts = family.facts if family.wrapper is not None else None
    seen = model.vision.no_images() is None and facts is not None and facts.projector
    return ModelType(
        name=name,
        state=state,
        parts={part: getattr(family, part) or "" for part in reversed(families.PARTS.values())},
        projector=type(model.projector._module).__name__ if seen else "",
        standings=standings(matrix),
        note=note,
    )


def _missing(name: str, config: Any, reason: str, cause: str) -> ModelType:
    """A type that is not served: what its config says of its parts, and what stands in the way."""
    parts = {"wrapper": name, "tower": _tower(config), "text": _text(config)}
    shelves = {part: shelf for shelf, part in families.PARTS.items()}
    unknown = tuple(part for part, held in parts.items() if held and held not in families.known(shelves[part]))
    return ModelType(name=name, state="missing", parts=parts, unknown=unknown, reason=reason, cause=cause)


def _tower(config: Any) -> str:
    found = (getattr(getattr(config, name, None), "model_type", "") for name in TOWERS)
    return next((name for name in found if name), "")


def _text(config: Any) -> str:
    """The text's type; empty where the config's own fields describe it."""
    text = None if config is None else config.get_text_config()
    return "" if text is None or text is config else str(text.model_type)


def _filled(one: ModelType, values: list[str], types: list[ModelType]) -> dict[str, Standing]:
    """A type's standings with a reason for every value that only other types have, in the table's order."""
    if one.state == "missing":
        return {}
    return {
        value: one.standings.get(value)
        or Standing(state="lacking", lacks=(Lack(reason=_elsewhere(one, value, types)),))
        for value in values
    }


def _elsewhere(one: ModelType, value: str, types: list[ModelType]) -> str:
    """Why a type has no row for a value that other types have."""
    stack = value.rpartition(".")[0]
    stacks = {held.rpartition(".")[0] for held in one.standings}
    if value.startswith("vision.") and "vision" not in stacks:
        return one.note
    if stack not in stacks:
        return f"this tower has no blocks `{stack}`; read vision.tower_output"
    having = [other.name for other in types if value in other.standings]
    return f"nothing in `{stack}` of this model has it; it is a value of other types, such as {having[0]}"


def _short(error: Exception) -> str:
    """The first line of an error, of a length for a cell."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
