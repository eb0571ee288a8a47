"""Operations inside a forward, by what they are rather than by where they stand.

nnsight brackets every call and every assignment of a forward and numbers them, so a label such as
``attention_interface_1`` changes as soon as a line is added above it. Here an operation is named by its own text:

``attention_interface()``
    the first call of that name; ``attention_interface()[1]`` is the second one.
``pos_embeds=``
    the first assignment to that name.
``self.add()#``
    an operation inside a loop: its runs are told apart, ``self.add()#0`` is the first of a forward.

Only the operations that a component serves are bracketed; the others run as they are. An operation that a release of
transformers renamed is missing, and is never answered with another one's value.
"""

import ast
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any

from nnsight.intervention.envoy import Envoy
from nnsight.intervention.source import BIND, Instrument, install_controller, instrument, make_op

__all__ = ["canonical", "install"]


class _Labels(Instrument):
    """nnsight's numbering of a forward, with each label under the name that we give the operation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, int] = {}
        self.labels: dict[str, str] = {}

    def wrap(self, name: str, fn: ast.expr, args: list[Any], keywords: list[Any], node: ast.AST) -> ast.Call:
        label = f"{name}_{self.counts.get(name, 0)}"
        bound = isinstance(fn, ast.Name) and fn.id == BIND
        operation = f"{name}=" if bound else f"{name}()"
        occurrence = self.seen.get(operation, 0)
        self.seen[operation] = occurrence + 1
        self.labels[f"{operation}[{occurrence}]"] = label
        wrapped: ast.Call = super().wrap(name, fn, args, keywords, node)
        return wrapped


def canonical(operation: str) -> str:
    """The full name of an operation: dots become underscores and the first occurrence is ``[0]``."""
    name = operation.replace(".", "_")
    return name if name.endswith("]") else f"{name}[0]"


@cache
def _labels(source: str) -> dict[str, str]:
    """Nnsight's label for each operation of a forward, from its dedented text."""
    tree = ast.parse(source)
    definition = tree.body[0]
    if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        # nnsight compiles a forward without its decorators, so they must not count here either.
        definition.decorator_list = []
    rewriter = _Labels()
    rewriter.visit(tree)
    return rewriter.labels


def _only(wanted: set[str], runs: dict[str, int], op: Callable[..., Any]) -> Callable[..., Any]:
    """Bracket the wanted operations with ``op``, those of ``runs`` by their number, and run all others as they are."""

    def run(location: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if location in runs:
            number, runs[location] = runs[location], runs[location] + 1
            return op(f"{location}#{number}", fn, *args, **kwargs)
        if location in wanted:
            return op(location, fn, *args, **kwargs)
        return fn(*args, **kwargs)

    return run


def _counting(body: Callable[..., Any], runs: dict[str, int]) -> Callable[..., Any]:
    """A forward that counts the runs of its operations from 0."""

    @wraps(body)
    def counted(*args: Any, **kwargs: Any) -> Any:
        runs.update(dict.fromkeys(runs, 0))
        return body(*args, **kwargs)

    return counted


def install(envoy: Envoy, operations: Iterable[str]) -> dict[str, str]:
    """Bracket operations of an envoy's forward, from now on, and give the location of each that was found.

    Returns:
        ``{operation: location}``, with the names as they were passed; a name that is missing has no key.
    """
    state = install_controller(envoy)
    wanted: set[str] = set()
    runs: dict[str, int] = {}
    body, compiled = instrument(state.original, _only(wanted, runs, make_op(lambda: state.active()[:2])))
    labels = _labels(compiled.source)
    found = {name: labels[canonical(name.rstrip("#"))] for name in operations if canonical(name.rstrip("#")) in labels}
    wanted.update(f"source.{label}" for label in found.values())
    runs.update({f"source.{label}": 0 for name, label in found.items() if name.endswith("#")})
    if not state.sourced:
        # `sourced` stays unset, so that `envoy.source` still brackets the whole forward for a user who asks.
        state.body = _counting(body, runs) if runs else body
    return {name: f"{envoy.path}.source.{label}{'#' * name.endswith('#')}" for name, label in found.items()}
