"""Operations inside a forward, by what they are rather than by where they stand.

nnsight brackets every call and every assignment of a forward and numbers them, so a label such as
``attention_interface_1`` changes as soon as a line is added above it. Here an operation is named by its own text:

``attention_interface()``
    the first call of that name; ``attention_interface()[1]`` is the second one, ``[-1]`` the last.
``pos_embeds=``
    the first assignment to that name.
``self.add()#``
    an operation inside a loop: its runs are told apart, ``self.add()#0`` is the first of a forward.
``self.lambda_1 * attention_output``
    a product, by the text of the whole expression: where a term is scaled on its way into a sum, no call and no
    assignment holds it.

Only the operations that a component serves are bracketed; the others run as they are. An operation that a release of
transformers renamed is missing, and is never answered with another one's value.
"""

import ast
from collections.abc import Callable, Iterable
from functools import cache, wraps
from operator import mul
from types import CodeType
from typing import Any

from nnsight.intervention.envoy import Envoy
from nnsight.intervention.source import (
    BIND,
    OP,
    SHELL,
    Instrument,
    SourceNotAvailable,
    bind,
    decorator_chain,
    function_like,
    install_controller,
    make_op,
    rewrap,
    source_tree,
)

__all__ = ["canonical", "install", "missing_module"]

#: The global that a rewritten product calls.
TIMES = "__belvedere_times__"


class _Labels(Instrument):
    """nnsight's rewriting of a forward, with each label under the name that we give the operation.

    Args:
        products: Names of the products to bracket too; nnsight brackets calls and assignments alone.
    """

    def __init__(self, products: frozenset[str]) -> None:
        super().__init__()
        self.products = products
        self.seen: dict[str, int] = {}
        self.labels: dict[str, str] = {}

    def wrap(self, name: str, fn: ast.expr, args: list[Any], keywords: list[Any], node: ast.AST) -> ast.Call:
        bound = isinstance(fn, ast.Name) and fn.id == BIND
        return self._named(f"{name}=" if bound else f"{name}()", name, fn, args, keywords, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:  # noqa: N802
        """Bracket a product that is wanted."""
        name = canonical(ast.unparse(node)).removesuffix("[0]") if isinstance(node.op, ast.Mult) else ""
        self.generic_visit(node)
        if name not in self.products:
            return node
        return self._named(name, "times", ast.Name(id=TIMES, ctx=ast.Load()), [node.left, node.right], [], node)

    def _named(self, operation: str, name: str, fn: ast.expr, args: Any, keywords: Any, node: ast.AST) -> ast.Call:
        label = f"{name}_{self.counts.get(name, 0)}"
        occurrence = self.seen.get(operation, 0)
        self.seen[operation] = occurrence + 1
        self.labels[f"{operation}[{occurrence}]"] = self.labels[f"{operation}[-1]"] = label
        wrapped: ast.Call = super().wrap(name, fn, args, keywords, node)
        return wrapped


def canonical(operation: str) -> str:
    """The full name of an operation: dots become underscores and the first occurrence is ``[0]``."""
    name = operation.replace(".", "_")
    return name if name.endswith("]") else f"{name}[0]"


@cache
def _rewritten(code: CodeType, products: frozenset[str]) -> tuple[CodeType, dict[str, str]]:
    """A function's code with its operations bracketed, and nnsight's label for each of them."""
    tree, start, _ = source_tree(code)
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise SourceNotAvailable("callable is not a plain function")
    # What decorates it is built around the result anew.
    definition.decorator_list = []
    rewriter = _Labels(products)
    rewriter.visit(tree)
    # Inside a function whose arguments are the free variables, these stay free.
    shell = ast.parse(f"def {SHELL}({', '.join(code.co_freevars)}): pass").body[0]
    assert isinstance(shell, ast.FunctionDef)
    shell.body = [definition]
    tree.body[0] = ast.copy_location(shell, definition)
    ast.increment_lineno(tree, start - 1)
    outer = _inner(compile(ast.fix_missing_locations(tree), code.co_filename, "exec"), SHELL)
    return _inner(outer, code.co_name), rewriter.labels


def _inner(code: CodeType, name: str) -> CodeType:
    """The code of the function of a name that is defined in another's body."""
    return next(held for held in code.co_consts if isinstance(held, CodeType) and held.co_name == name)


@cache
def _peeled(forward: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """`decorator_chain`, which reads the source, once for all modules of a class."""
    peeled: tuple[Callable[..., Any], Any] = decorator_chain(forward)
    return peeled


def _bracketed(forward: Callable[..., Any], op: Any, products: frozenset[str]) -> tuple[Callable[..., Any], Any]:
    """A copy of a forward that calls ``op`` for each operation, in its decorators, and the labels."""
    inner, chain = _peeled(forward)
    code, labels = _rewritten(inner.__code__, products)
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars) or None
    built = function_like(inner, code, closure, **{OP: op, BIND: bind, TIMES: mul})
    return rewrap(chain, built), labels


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
    names = {name: canonical(name.rstrip("#")) for name in operations}
    products = frozenset(name.rpartition("[")[0] for name in names.values() if " * " in name)
    body, labels = _bracketed(state.original, _only(wanted, runs, make_op(lambda: state.active()[:2])), products)
    found = {name: labels[full] for name, full in names.items() if full in labels}
    wanted.update(f"source.{label}" for label in found.values())
    runs.update({f"source.{label}": 0 for name, label in found.items() if name.endswith("#")})
    if not state.sourced:
        # `sourced` stays unset, so that `envoy.source` still brackets the whole forward for a user who asks.
        state.body = _counting(body, runs) if runs else body
    return {name: f"{envoy.path}.source.{label}{'#' * name.endswith('#')}" for name, label in found.items()}


def missing_module(envoy: Any, where: str) -> str | None:
    """The reason, where this transformers' module has no such module below it."""
    try:
        if where:
            envoy.get(where)
    except AttributeError:
        import transformers

        return (
            f"{type(envoy._module).__name__} in transformers {transformers.__version__} has no module `{where}`; use a "
            "release that Belvedere was tested with, or say in your own family where the value is"
        )
    return None
