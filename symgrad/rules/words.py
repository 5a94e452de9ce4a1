"""Words in which the rule tables are written: wildcards, functions, domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.pattern import wild

a, b, c, t, n = wild("a"), wild("b"), wild("c"), wild("t"), wild("n")

POSITIVE = (0.1, 4.0)
UNIT = (-0.9, 0.9)


def f(name: str, *args: ex.Scalar) -> Expr:
    """A function of the table, as it stands."""
    return make(name, *(ex.as_expr(x) for x in args))


def exp(x: ex.Scalar) -> Expr:
    return f("exp", x)


def log(x: ex.Scalar) -> Expr:
    return f("log", x)


def log1p(x: ex.Scalar) -> Expr:
    return f("log1p", x)


def expm1(x: ex.Scalar) -> Expr:
    return f("expm1", x)


def sigmoid(x: ex.Scalar) -> Expr:
    return f("sigmoid", x)


def softplus(x: ex.Scalar) -> Expr:
    return f("softplus", x)


def tanh(x: ex.Scalar) -> Expr:
    return f("tanh", x)


def size(x: Expr) -> Expr:
    """The absolute value."""
    return f("abs", x)


def positive(name: Expr) -> Callable[[Mapping[Expr, Expr]], bool]:
    """The wildcard is a scalar that may be positive; where it can be negative too, the check of the result shows it."""

    def holds(bindings: Mapping[Expr, Expr]) -> bool:
        value = bindings[name]
        return value.is_static and (value.number is None or value.number > 0)

    return holds


def at_least_one(name: Expr) -> Callable[[Mapping[Expr, Expr]], bool]:
    """The condition that a wildcard stands for such a number."""

    def holds(bindings: Mapping[Expr, Expr]) -> bool:
        number = bindings[name].number
        return number is not None and number >= 1

    return holds


def negative(exponent: Expr, *scalars: Expr) -> Callable[[Mapping[Expr, Expr]], bool]:
    """The exponent is a negative integer, and each of the scalars may be positive."""

    def holds(bindings: Mapping[Expr, Expr]) -> bool:
        number = bindings[exponent].integer
        if number is None or number >= 0:
            return False
        values = [bindings[s] for s in scalars]
        return all(v.number is None or v.number > 0 for v in values)

    return holds


def fractional(name: Expr) -> Callable[[Mapping[Expr, Expr]], bool]:
    """The wildcard is anything but an integer."""

    return lambda bindings: bindings[name].integer is None
