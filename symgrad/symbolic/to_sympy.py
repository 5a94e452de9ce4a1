"""Our expressions as SymPy's.

A function of the table is SymPy's class of the same name, or is opened by its definition (`sigmoid(x)` is
`1/(1 + exp(-x))`); what both mean is equal over the reals. Nothing is simplified here beyond what SymPy does by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.accuracy.widening import DOUBLE, SINGLE, WIDEN
from symgrad.errors import SymgradError
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS

if TYPE_CHECKING:
    import sympy

__all__ = ["NotConvertible", "applied", "definition_of", "sympy_symbol", "to_sympy"]

Outside = Callable[[Expr, "tuple[sympy.Basic, ...]"], "sympy.Basic"]


class NotConvertible(SymgradError):
    """An expression that the other system has no word for; the message says which part, and why."""


def to_sympy(
    expr: Expr,
    symbols: Mapping[Expr, sympy.Basic] | None = None,
    *,
    outside: Outside | None = None,
) -> sympy.Expr:
    """`expr` in SymPy, with real symbols of the same names.

    `symbols` gives other symbols for some of ours, for example ones with `positive=True`. `outside` makes a value of
    an operation that is not pointwise, from the node and its converted arguments (see `applied`); without it such
    an operation raises NotConvertible.
    """
    converted: dict[Expr, Any] = dict(symbols or {})
    for node in topological(expr, leaves=frozenset(converted)):
        if node not in converted:
            converted[node] = _converted(node, [converted[a] for a in node.args], outside)
    result: sympy.Expr = converted[expr]
    return result


def sympy_symbol(node: Expr) -> sympy.Symbol:
    """The SymPy symbol of one of ours: real, integer where it holds integers, plain where it holds truth values."""
    import sympy

    kind = node["kind"]
    if kind in ("bool", "bool_tensor", "str"):
        return sympy.Symbol(node.name)
    return (
        sympy.Symbol(node.name, integer=True) if kind in ("int", "int_tensor") else sympy.Symbol(node.name, real=True)
    )


def applied(node: Expr, args: Iterable[sympy.Basic]) -> sympy.Basic:
    """A tensor operation as an undefined SymPy function of its operands, for display: `sum(x)`."""
    import sympy

    name = "".join([node.op, *(f"_{key}_{value}" for key, value in node.attrs if value not in (None, False))])
    return sympy.Function(name, real=True)(*args)


def definition_of(node: Expr, args: Sequence[Expr]) -> Expr | None:
    """The definition of a node's function, of `args`, where SymPy has no name for it; None for other nodes."""
    row = FUNCTIONS.get(node.op)
    return None if row is None or row.opened is None or row.sympy or row.in_sympy else row.opened(*args)


def _converted(node: Expr, args: list[Any], outside: Outside | None) -> Any:
    import sympy

    if node.op in _LEAVES:
        return _LEAVES[node.op](node)
    if node.op in _STRUCTURE:
        return _STRUCTURE[node.op](sympy, *args)
    row = FUNCTIONS.get(node.op)
    if row is not None and row.sympy:
        return getattr(sympy, row.sympy)(*args)
    if row is not None and row.in_sympy is not None:
        return row.in_sympy(sympy, *args)
    holes = [symbol(f"_{index}") for index in range(len(args))]
    if (definition := definition_of(node, holes)) is not None:
        return to_sympy(definition, dict(zip(holes, args, strict=True)), outside=outside)
    if outside is not None:
        return outside(node, tuple(args))
    raise NotConvertible(f"{node.op} is no pointwise function: SymPy has no word for {node}")


def _number(node: Expr) -> Any:
    import sympy

    value = node["value"]
    return sympy.Rational(value.numerator, value.denominator)


def _constant(node: Expr) -> Any:
    import sympy

    return getattr(sympy, node["name"])


def _text(node: Expr) -> Any:
    import sympy

    return sympy.Symbol(repr(node["value"]))


def _truth_value(node: Expr) -> Any:
    import sympy

    return sympy.true if node.op == "true" else sympy.false


_LEAVES: Mapping[str, Callable[[Expr], Any]] = {
    "sym": sympy_symbol,
    "num": _number,
    "const": _constant,
    "text": _text,
    "true": _truth_value,
    "false": _truth_value,
}


def _where(sympy: Any, condition: Any, then: Any, otherwise: Any) -> Any:
    if isinstance(then, sympy.logic.boolalg.Boolean) and not isinstance(then, sympy.Symbol):
        return sympy.ITE(condition, then, otherwise)
    return sympy.Piecewise((then, condition), (otherwise, True))


# Arithmetic, comparisons and choices, and the operations of the machine form.
_STRUCTURE: Mapping[str, Callable[..., Any]] = {
    "add": lambda sympy, *args: sympy.Add(*args),
    "mul": lambda sympy, *args: sympy.Mul(*args),
    "pow": lambda sympy, base, exponent: sympy.Pow(base, exponent),
    "sub": lambda sympy, a, b: a - b,
    "div": lambda sympy, a, b: a / b,
    "neg": lambda sympy, a: -a,
    "held": lambda sympy, a: a,
    "floated": lambda sympy, a: a,
    **dict.fromkeys((WIDEN, DOUBLE, SINGLE), lambda sympy, a: a),
    "narrow_sin": lambda sympy, a: sympy.sin(a),
    "narrow_cos": lambda sympy, a: sympy.cos(a),
    "narrow_tan": lambda sympy, a: sympy.tan(a),
    "lt": lambda sympy, a, b: sympy.Lt(a, b),
    "le": lambda sympy, a, b: sympy.Le(a, b),
    "gt": lambda sympy, a, b: sympy.Gt(a, b),
    "ge": lambda sympy, a, b: sympy.Ge(a, b),
    "eq": lambda sympy, a, b: sympy.Eq(a, b),
    "ne": lambda sympy, a, b: sympy.Ne(a, b),
    "and": lambda sympy, *args: sympy.And(*args),
    "or": lambda sympy, *args: sympy.Or(*args),
    "not": lambda sympy, a: sympy.Not(a),
    "where": _where,
}
