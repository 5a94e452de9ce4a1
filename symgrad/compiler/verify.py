"""The verifier: what an expression must be like between two stages, by the tables.

A stage that makes a wrong node (an unknown operation, too many arguments, a truth value where a number belongs) is told
at once and by name, in place of a failure far behind it. Tests turn it on for everything that they compile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from math import inf

from symgrad.accuracy.widening import DOUBLE, NARROW, SINGLE, WIDEN
from symgrad.ir.expr import COMPARISONS, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS

__all__ = ["InvalidExpression", "check", "verified", "verifying"]

_LEAVES = frozenset({"sym", "num", "const", "text", "true", "false"})

# Operations that stand in no table: the fewest and the most arguments.
_CORE: dict[str, tuple[float, float]] = {
    **dict.fromkeys(_LEAVES, (0, 0)),
    "add": (2, inf),
    "mul": (2, inf),
    "pow": (2, 2),
    "where": (3, 3),
    "not": (1, 1),
    "and": (2, inf),
    "or": (2, inf),
    **dict.fromkeys(COMPARISONS, (2, 2)),
    **dict.fromkeys((WIDEN, DOUBLE, SINGLE, *NARROW), (1, 1)),
    **dict.fromkeys(("row_sum", "row_max", "row_min", "row_value", "row_reciprocal", "row_place"), (1, 1)),  # of passes
    "row_at": (2, 2),
    "row_first": (1, 1),
    "held": (1, 1),
}
_OF_TRUTH = frozenset({"and", "or", "not"})


class InvalidExpression(Exception):
    """A stage made an expression that no table knows: a mistake of symgrad, with the stage and the node."""


def check(root: Expr, known: Collection[Expr] | None = None) -> None:
    """Raise InvalidExpression where a node below `root` contradicts its row; `known` are the symbols there are."""
    for node in topological(root):
        fault = _arity(node) or _kinds(node) or _attributes(node)
        if not fault and node.op == "sym" and known is not None and node not in known:
            fault = "no such symbol is known here"
        if fault:
            raise InvalidExpression(f"{node.op}({', '.join(map(str, node.args))}): {fault}")


def _arity(node: Expr) -> str:
    count = len(node.args)
    if node.op in TENSOR_OPS:
        row = TENSOR_OPS[node.op]
        least: float = len(row.operands) - row.optional
        most: float = inf if row.variadic else len(row.operands)
    elif node.op in FUNCTIONS:
        least, most = _required(node.op), len(FUNCTIONS[node.op].parameters)
    elif node.op in _CORE:
        least, most = _CORE[node.op]
    else:
        return "no operation of this name is in a table"
    return "" if least <= count <= most else f"takes {least} to {most} arguments, not {count}"


@cache
def _required(function: str) -> int:
    return FUNCTIONS[function].required


def _kinds(node: Expr) -> str:
    if node.op in _OF_TRUTH and not all(a.is_boolean for a in node.args):
        return "takes truth values"
    if node.op == "where" and not node.args[0].is_boolean:
        return "chooses by a truth value"
    if node.op in ("add", "mul", "pow") and any(a.op == "text" for a in node.args):
        return "takes no texts"
    return ""


def _attributes(node: Expr) -> str:
    row = TENSOR_OPS.get(node.op)
    if row is None or not row.attributes:
        return ""
    missing = [a.name for a in row.attributes if a.required and node.get(a.name) is None]
    return f"lacks {', '.join(missing)}" if missing else ""


_on = False


@contextmanager
def verifying() -> Iterator[None]:
    """Verify between all stages while the context is open."""
    global _on
    before, _on = _on, True
    try:
        yield
    finally:
        _on = before


def verified(stage: str, roots: Iterable[Expr]) -> None:
    """Check what a stage made, if that is asked for. Raises InvalidExpression with the name of the stage."""
    if not _on:
        return
    for root in roots:
        try:
            check(root)
        except InvalidExpression as fault:
            raise InvalidExpression(f"after {stage}: {fault}") from None
